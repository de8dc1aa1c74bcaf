#pragma once
/// \file
/// Definition of the checks that weights are finite.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/quantize/finite.hpp"

namespace ecq {

ECQ_INLINE result<void> check_finite(std::span<const float> row_values, std::size_t row) {
  const auto exponent_is_full = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) == 0x7f800000U;
  };
  // Bit 31 of a sum is set where the exponent is full. With words instead of bools, compilers take several at a time.
  std::uint32_t sums = 0;
  for (const float value : row_values) sums |= (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) + 0x00800000U;
  if (sums >> 31 == 0) return {};
  std::size_t column = 0;
  while (!exponent_is_full(row_values[column])) ++column;
  const bool infinite = (std::bit_cast<std::uint32_t>(row_values[column]) & 0x7fffffU) == 0;
  return error(errc::non_finite, "weight at row ", row, ", column ", column, (infinite ? " is infinite" : " is NaN"));
}

ECQ_INLINE result<void> check_finite(const cpu& backend, const weights_view& weights) {
  if (weights.empty()) return {};  // however many rows there are
  return parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    std::vector<float> values(weights.columns());
    weights.load(row, 0, values);
    return check_finite(values, row);
  });
}

}  // namespace ecq
