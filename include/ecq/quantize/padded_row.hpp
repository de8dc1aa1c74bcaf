#pragma once
/// \file
/// Weights of a row in FP32, with zeros behind them so that kernels need no ends.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/rounding.hpp"

namespace ecq::detail {

/// Sets `values` to the `count` weights of row `row` from `column` on, and to zeros up to a multiple of row_padding.
inline void load_padded(const weights_view& weights, std::size_t row, std::size_t column, std::size_t count,
                        std::vector<float>& values) {
  values.resize((count + row_padding - 1) / row_padding * row_padding);
  weights.load(row, column, std::span(values).first(count));
  std::fill(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(), 0.0F);
}

}  // namespace ecq::detail
