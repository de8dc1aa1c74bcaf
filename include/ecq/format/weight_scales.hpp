#pragma once
/// \file
/// Scales of quantised weights.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/format/dtype.hpp"

namespace ecq {

/// Storage formats of the scales of quantised weights.
enum class scale_type : std::uint8_t {
  fp32,
  fp16,
  bf16,
  fp8_e4m3,
  e8m0  ///< one byte x for 2^(x - 127), 255 for NaN (OCP Microscaling Formats 1.0, section 5.4.1)
};

/// Returns the size of one scale in bytes.
constexpr std::size_t size_of(scale_type type) noexcept {
  if (type == scale_type::fp32) return 4;
  return type == scale_type::fp16 || type == scale_type::bf16 ? 2 : 1;
}

/// Scales of quantised weights, stored in a matrix of their own without gaps: weight(row, column) = element(row,
/// column) * scale(row / rows_per_scale, column / columns_per_scale). The scales are in the machine's byte order and
/// may be unaligned.
struct weight_scales {
  const std::byte* data = nullptr;
  scale_type type = scale_type::fp32;
  std::size_t rows_per_scale = 1;
  std::size_t columns_per_scale = 1;
  std::size_t across = 1;  ///< scales in one row of scales

  /// Returns the scale of the weight in row `row` and column `column`.
  float of(std::size_t row, std::size_t column) const noexcept {
    const std::size_t index = row / rows_per_scale * across + column / columns_per_scale;
    const auto decode = [&]<class Format>(Format) {
      typename Format::code_type code;
      std::memcpy(&code, data + index * sizeof code, sizeof code);
      return Format::decode(code);
    };
    switch (type) {
      case scale_type::fp32: return decode(fp32{});
      case scale_type::fp16: return decode(fp16{});
      case scale_type::bf16: return decode(bf16{});
      case scale_type::fp8_e4m3: return decode(fp8_e4m3{});
      case scale_type::e8m0: break;
    }
    const auto exponent = std::to_integer<std::uint32_t>(data[index]);
    if (exponent == 255) return std::bit_cast<float>(0x7fc00000U);
    return std::bit_cast<float>(exponent == 0 ? 0x00400000U : exponent << 23);
  }
};

}  // namespace ecq
