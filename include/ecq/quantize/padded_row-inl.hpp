#pragma once
/// \file
/// Definition of load_padded().

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ecq/quantize/padded_row.hpp"
#include "ecq/quantize/rounding.hpp"

namespace ecq::detail {

ECQ_INLINE void load_padded(const weights_view& weights, std::size_t row, std::size_t column, std::size_t count,
                            std::vector<float>& values) {
  values.resize((count + row_padding - 1) / row_padding * row_padding);
  weights.load(row, column, std::span(values).first(count));
  std::fill(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(), 0.0F);
}

}  // namespace ecq::detail
