#pragma once
/// \file
/// BF16: the upper half of an FP32.

#include <cstdint>
#include <string_view>

#include "ecq/format/minifloat.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// bfloat16: 8 exponent bits, 7 mantissa bits, the range of FP32.
struct bf16 {
  using layout = minifloat<std::uint16_t, 8, 7, overflow::to_infinity>;
  using code_type = layout::code_type;

  static constexpr std::string_view name = "bf16";
  static constexpr int bits_per_code = layout::bits;
  static constexpr float largest = layout::decode(layout::largest_code);

  code_type bits = 0;

  constexpr bf16() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit bf16(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }
  ECQ_HOST_DEVICE static constexpr bf16 from_bits(code_type code) noexcept {
    bf16 value;
    value.bits = code;
    return value;
  }

  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept { return layout::encode(value); }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept { return layout::decode(code); }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type code) noexcept { return layout::is_finite(code); }
};

static_assert(number_format<bf16>);

}  // namespace ecq
