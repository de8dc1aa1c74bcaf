#include "ecq/base/amx-inl.hpp"
#include "ecq/matmul/tile_products_amx-inl.hpp"
