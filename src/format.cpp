#include "ecq/format/code_values-inl.hpp"
#include "ecq/format/exact_weight-inl.hpp"
#include "ecq/format/packed_scales-inl.hpp"
#include "ecq/format/weights_view-inl.hpp"
