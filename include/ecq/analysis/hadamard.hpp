#pragma once
/// \file
/// Hadamard transform. According to ECF8's measurements, this rotation leaves the exponents of weights as concentrated
/// as they were.

#include <cmath>
#include <cstddef>
#include <span>

namespace ecq {

/// Largest block that hadamard_block() returns.
inline constexpr std::size_t largest_hadamard_block = std::size_t{1} << 14;

/// Returns the largest power of two that divides `columns`, at most largest_hadamard_block. It is the length of the
/// blocks in which rows of `columns` weights are rotated. Odd lengths and 0 give 1, which rotates nothing.
constexpr std::size_t hadamard_block(std::size_t columns) noexcept {
  std::size_t block = 1;
  while (columns != 0 && block < largest_hadamard_block && columns % (2 * block) == 0) block *= 2;
  return block;
}

/// Multiplies the n values by the n x n Hadamard matrix in Sylvester's order, divided by sqrt(n), so that the transform
/// is orthogonal and its own inverse. Precondition: n is a power of two. Takes n log2 n additions (fast Walsh-Hadamard
/// transform).
inline void hadamard_transform(std::span<float> values) noexcept {
  for (std::size_t half = 1; half < values.size(); half *= 2) {
    for (std::size_t first = 0; first < values.size(); first += 2 * half) {
      for (std::size_t at = first; at < first + half; ++at) {
        const float sum = values[at] + values[at + half];
        values[at + half] = values[at] - values[at + half];
        values[at] = sum;
      }
    }
  }
  const float norm = 1.0F / std::sqrt(static_cast<float>(values.size()));
  for (float& value : values) value *= norm;
}

}  // namespace ecq
