#pragma once
/// \file
/// Weights of a row in FP32, padded with zeros so that kernels need no code for remainders.

#include <cstddef>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq::detail {

/// Sets `values` to the `count` weights of row `row` from `column` on, and to zeros up to a multiple of row_padding
/// (quantize/rounding.hpp).
void load_padded(const weights_view& weights, std::size_t row, std::size_t column, std::size_t count,
                 std::vector<float>& values);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/quantize/padded_row-inl.hpp"
#endif
