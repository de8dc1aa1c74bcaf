#pragma once
/// \file
/// FP32: IEEE 754 binary32.

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// IEEE 754-2019 binary32 as a format, for weights read or written as `float`.
struct fp32 {
  using code_type = std::uint32_t;

  static constexpr std::string_view name = "fp32";
  static constexpr int bits_per_code = 32;
  static constexpr float largest = (std::numeric_limits<float>::max)();

  code_type bits = 0;

  constexpr fp32() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit fp32(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }

  // Uses the builtin behind std::bit_cast, which nvcc does not call from device code.
  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept {
    return __builtin_bit_cast(code_type, value);
  }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept { return __builtin_bit_cast(float, code); }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type code) noexcept {
    return (code & 0x7f800000U) != 0x7f800000U;
  }
};

static_assert(number_format<fp32>);

}  // namespace ecq
