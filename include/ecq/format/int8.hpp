#pragma once
/// \file
/// Int8: 8-bit two's complement integers.

#include <cstdint>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// Integers -128 ... 127; the code is the two's complement byte. Scales map a row's maximum to 127, so -128 appears
/// only where a scale search saturates.
struct int8 {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "int8";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = 127.0F;

  code_type bits = 0;

  constexpr int8() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit int8(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }

  /// Returns the nearest integer, ties to even, clamped; NaN gives 0.
  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept {
    if (!(value > -128.5F)) return value <= -128.5F ? code_type{0x80} : code_type{0};
    if (value >= 127.0F) return 0x7f;
    const int truncated = static_cast<int>(value);
    const int below = static_cast<float>(truncated) > value ? truncated - 1 : truncated;
    const float rest = value - static_cast<float>(below);
    const bool up = rest > 0.5F || (rest == 0.5F && (below & 1) != 0);
    return static_cast<code_type>(below + (up ? 1 : 0));
  }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept {
    return static_cast<float>(static_cast<std::int8_t>(code));
  }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type) noexcept { return true; }
};

static_assert(code_format<int8>);

}  // namespace ecq
