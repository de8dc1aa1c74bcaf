#pragma once
/// \file
/// FP16: IEEE 754 binary16.

#include <cstdint>
#include <string_view>

#include "ecq/format/minifloat.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// IEEE 754-2019 binary16: 5 exponent bits, 10 mantissa bits, largest finite value 65504.
struct fp16 {
  using layout = minifloat<std::uint16_t, 5, 10, overflow::to_infinity>;
  using code_type = layout::code_type;

  static constexpr std::string_view name = "fp16";
  static constexpr int bits_per_code = layout::bits;
  static constexpr float largest = layout::decode(layout::largest_code);

  code_type bits = 0;

  constexpr fp16() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit fp16(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }
  ECQ_HOST_DEVICE static constexpr fp16 from_bits(code_type code) noexcept {
    fp16 value;
    value.bits = code;
    return value;
  }

  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept { return layout::encode(value); }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept { return layout::decode(code); }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type code) noexcept { return layout::is_finite(code); }
};

static_assert(number_format<fp16>);

}  // namespace ecq
