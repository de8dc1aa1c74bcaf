#pragma once
/// \file
/// Conversion of every floating-point format of 8 and 16 bits: sign, exponent, mantissa, with subnormals.

#include <bit>
#include <cstdint>
#include <limits>

#include "ecq/base/config.hpp"

namespace ecq {

/// Encoding of values beyond the largest finite one, and choice of the codes that are not finite.
enum class overflow : std::uint8_t {
  to_infinity,  ///< IEEE 754: the top exponent holds infinities and NaN (FP16, BF16)
  saturate,     ///< the same codes, but everything beyond the range becomes the largest finite value (FP8 E5M2 here)
  saturate_fn   ///< no infinities; only the all-ones code is NaN, everything else saturates (FP8 E4M3, OCP "FN")
};

/// Converts between FP32 values and the bit patterns of a binary floating-point format of 1 + ExponentBits +
/// MantissaBits <= 16 bits. Rounds to nearest, ties to even. Sources: IEEE 754-2019 section 3.4; OCP 8-bit Floating
/// Point Specification 1.0.
template <class Code, int ExponentBits, int MantissaBits, overflow Overflow>
struct minifloat {
  using code_type = Code;

  static constexpr int exponent_bits = ExponentBits;
  static constexpr int mantissa_bits = MantissaBits;
  static constexpr int bits = 1 + ExponentBits + MantissaBits;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr Code sign_mask = static_cast<Code>(1U << (bits - 1));
  static constexpr Code magnitude_mask = static_cast<Code>(sign_mask - 1U);
  /// Magnitude of the largest finite value.
  static constexpr Code largest_code = static_cast<Code>(
      Overflow == overflow::saturate_fn ? magnitude_mask - 1U : (((1U << ExponentBits) - 1U) << MantissaBits) - 1U);
  static constexpr Code nan_code = Overflow == overflow::saturate_fn
                                       ? magnitude_mask
                                       : static_cast<Code>(magnitude_mask & ~((1U << (MantissaBits - 1)) - 1U));

  ECQ_HOST_DEVICE static constexpr bool is_finite(Code code) noexcept {
    return (code & magnitude_mask) <= largest_code;
  }
  ECQ_HOST_DEVICE static constexpr bool is_nan(Code code) noexcept {
    return !is_finite(code) &&
           (Overflow == overflow::saturate_fn || (code & magnitude_mask) != static_cast<Code>(largest_code + 1U));
  }

  /// Returns the code nearest to `value`. NaN gives the quiet NaN of the same sign; infinities saturate unless the
  /// format has them and Overflow is to_infinity.
  ECQ_HOST_DEVICE static constexpr Code encode(float value) noexcept {
    const std::uint32_t word = __builtin_bit_cast(std::uint32_t, value);
    const Code sign = static_cast<Code>((word >> 31) << (bits - 1));
    const std::uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<Code>(sign | nan_code);
    constexpr int dropped = 23 - MantissaBits;
    constexpr std::uint32_t beyond = static_cast<std::uint32_t>(largest_code) + 1U;
    if constexpr (ExponentBits == 8 && Overflow == overflow::to_infinity) {
      // With the exponents of FP32, infinity and values that round to it need no special case, so loops are vectorised.
      const std::uint32_t up = ((1U << (dropped - 1)) - 1U) + ((magnitude >> dropped) & 1U);
      return static_cast<Code>(sign | static_cast<Code>((magnitude + up) >> dropped));
    }
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
    std::uint32_t rounded = 0;
    if (exponent >= 1) {
      const std::uint32_t rebased = magnitude - (static_cast<std::uint32_t>(127 - bias) << 23);
      rounded = (rebased + ((1U << (dropped - 1)) - 1U) + ((rebased >> dropped) & 1U)) >> dropped;
    } else {
      // Subnormal in this format: the significand, with its hidden bit made explicit, shifts to the fixed quantum of
      // exponent 1.
      const int shift = dropped + 1 - exponent;
      if (shift <= 24) {
        const std::uint32_t hidden = (magnitude >> 23) != 0 ? 0x800000U : 0U;
        const std::uint32_t significand = (magnitude & 0x7fffffU) | hidden;
        const int shift_here = hidden != 0 ? shift : shift - 1;
        rounded =
            shift_here == 0
                ? significand
                : (significand + ((1U << (shift_here - 1)) - 1U) + ((significand >> shift_here) & 1U)) >> shift_here;
      }
    }
    if (rounded >= beyond) {
      rounded = Overflow == overflow::to_infinity ? beyond : static_cast<std::uint32_t>(largest_code);
    }
    return static_cast<Code>(sign | static_cast<Code>(rounded));
  }

  /// Returns the exact value of `code`; NaN codes give NaN, infinity codes infinity.
  ECQ_HOST_DEVICE static constexpr float decode(Code code) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(code >> (bits - 1)) << 31;
    const std::uint32_t magnitude = code & magnitude_mask;
    if constexpr (ExponentBits == 8 && Overflow == overflow::to_infinity) {  // the exponents of FP32
      return __builtin_bit_cast(float, sign | (is_nan(code) ? 0x7fc00000U : magnitude << (23 - MantissaBits)));
    }
    if (!is_finite(code)) {
      if (is_nan(code)) return __builtin_bit_cast(float, sign | 0x7fc00000U);
      return __builtin_bit_cast(float, sign | 0x7f800000U);
    }
    const std::uint32_t exponent = magnitude >> MantissaBits;
    if (exponent != 0) {
      return __builtin_bit_cast(
          float, sign | ((magnitude << (23 - MantissaBits)) + (static_cast<std::uint32_t>(127 - bias) << 23)));
    }
    if (bias == 127) return __builtin_bit_cast(float, sign | (magnitude << (23 - MantissaBits)));
    const float quantum = __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + 1 - bias - MantissaBits) << 23);
    const float absolute = static_cast<float>(magnitude) * quantum;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, absolute));
  }
};

}  // namespace ecq
