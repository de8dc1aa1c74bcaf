#include "ecq/entropy/histogram-inl.hpp"
#include "ecq/entropy/nibble_list-inl.hpp"
