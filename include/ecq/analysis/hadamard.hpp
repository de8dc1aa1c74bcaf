#pragma once
/// \file
/// The Hadamard transform: the rotation under which, by ECF8's measurements, the exponents of weights stay as
/// concentrated as they were.

#include <cmath>
#include <cstddef>
#include <span>

namespace ecq {

/// The largest block that hadamard_block answers.
inline constexpr std::size_t largest_hadamard_block = std::size_t{1} << 14;

/// The largest power of two that divides `columns`, at most largest_hadamard_block: rows of so many weights are rotated
/// in blocks of that length. 1, which rotates nothing, for odd lengths and for 0.
constexpr std::size_t hadamard_block(std::size_t columns) noexcept {
  std::size_t block = 1;
  while (columns != 0 && block < largest_hadamard_block && columns % (2 * block) == 0) block *= 2;
  return block;
}

/// Multiplies `values` by the Hadamard matrix of their number, a power of two, in Sylvester's order, divided by its
/// square root, so that the transform is orthogonal and its own inverse. n log2 n additions (fast Walsh-Hadamard
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
