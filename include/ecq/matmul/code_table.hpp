#pragma once
/// \file
/// Table of the values of codes, for products.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/format/fp32.hpp"

namespace ecq::detail {

/// Values of all codes of a format, and their upper halves as BF16. BF16 holds the values of FP8, Int8, uint8 and uint4
/// exactly.
struct code_table {
  alignas(64) std::array<float, 256> values;
  alignas(64) std::array<std::uint16_t, 256> halves;
  bool exact_halves = true;  ///< every value equals its half
  bool all_finite = true;    ///< every code stands for a finite number

  explicit code_table(std::span<const float, 256> from) {
    for (std::size_t code = 0; code < 256; ++code) {
      const auto bits = std::bit_cast<std::uint32_t>(from[code]);
      values[code] = from[code];
      halves[code] = static_cast<std::uint16_t>(bits >> 16);
      exact_halves = exact_halves && (bits & 0xFFFFU) == 0;
      all_finite = all_finite && fp32::is_finite(bits);
    }
  }

  bool is_finite(std::byte code) const {
    return fp32::is_finite(std::bit_cast<std::uint32_t>(values[std::to_integer<std::uint8_t>(code)]));
  }
};

}  // namespace ecq::detail
