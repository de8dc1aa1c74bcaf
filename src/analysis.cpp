#include "ecq/analysis/exponent_counts-inl.hpp"
#include "ecq/analysis/exponent_law-inl.hpp"
