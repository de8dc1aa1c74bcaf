#pragma once
/// \file
/// FP8 E5M2: 5 exponent bits, 2 mantissa bits, largest finite value 57344.

#include <cstdint>
#include <string_view>

#include "ecq/format/minifloat.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// OCP 8-bit Floating Point Specification 1.0, type E5M2. Encoding saturates: infinities exist as codes (0x7c, 0xfc),
/// but no real number encodes to one.
struct fp8_e5m2 {
  using layout = minifloat<std::uint8_t, 5, 2, overflow::saturate>;
  using code_type = layout::code_type;

  static constexpr std::string_view name = "fp8_e5m2";
  static constexpr int bits_per_code = layout::bits;
  static constexpr float largest = layout::decode(layout::largest_code);

  code_type bits = 0;

  constexpr fp8_e5m2() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit fp8_e5m2(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }
  ECQ_HOST_DEVICE static constexpr fp8_e5m2 from_bits(code_type code) noexcept {
    fp8_e5m2 value;
    value.bits = code;
    return value;
  }

  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept { return layout::encode(value); }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept { return layout::decode(code); }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type code) noexcept { return layout::is_finite(code); }
};

static_assert(number_format<fp8_e5m2>);

}  // namespace ecq
