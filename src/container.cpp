#include "ecq/container/description-inl.hpp"
#include "ecq/container/reader-inl.hpp"
#include "ecq/container/writer-inl.hpp"
