#pragma once
/// \file
/// Quantisers take finite weights alone; this finds the others.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ecq/result.hpp"

namespace ecq {

/// errc::non_finite, naming row and column, for the first NaN or infinity among the weights of `row`.
inline result<void> check_finite(std::span<const float> row_values, std::size_t row) {
  const auto exponent_is_full = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) == 0x7f800000U;
  };
  bool all_finite = true;
  for (const float value : row_values) all_finite &= !exponent_is_full(value);
  if (all_finite) return {};
  std::size_t column = 0;
  while (!exponent_is_full(row_values[column])) ++column;
  const bool infinite = (std::bit_cast<std::uint32_t>(row_values[column]) & 0x7fffffU) == 0;
  return error(errc::non_finite, "weight at row " + std::to_string(row) + ", column " + std::to_string(column) +
                                     (infinite ? " is infinite" : " is NaN"));
}

}  // namespace ecq
