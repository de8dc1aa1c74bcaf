#pragma once
/// \file
/// Rounding to a number format without a branch: the values and codes of Format::encode, many weights at a time.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/quantize/regularizer.hpp"

namespace ecq::detail {

/// Four neighbouring lanes. The vector extension of GCC and clang compiles to whatever the machine has; without it the
/// same code runs on one lane at a time, with the same results.
#if defined(__GNUC__)
using float_lanes = float __attribute__((vector_size(16)));
using word_lanes = std::uint32_t __attribute__((vector_size(16)));
#else
using float_lanes = float;
using word_lanes = std::uint32_t;
#endif
inline constexpr std::size_t lanes_at_once = sizeof(float_lanes) / sizeof(float);

/// Rows in buffers are padded with zeros to a multiple of this many weights.
inline constexpr std::size_t row_padding = 16;

inline float_lanes every_lane(float value) noexcept { return float_lanes{} + value; }
inline float_lanes smaller_of(float_lanes left, float_lanes right) noexcept { return left < right ? left : right; }
inline float_lanes larger_of(float_lanes left, float_lanes right) noexcept { return left > right ? left : right; }
inline float_lanes magnitude_of(float_lanes values) noexcept {
  return std::bit_cast<float_lanes>(std::bit_cast<word_lanes>(values) & 0x7fffffffU);
}

/// `nearest(m)` = decode(encode(m)) for 0 <= m <= Format::largest; `encode(x)` = Format::encode(x) for every x but NaN,
/// the code of -0 folded to that of +0. This definition serves any format; those below are fast.
template <class Format>
struct rounding {
  static float_lanes nearest(float_lanes magnitudes) noexcept {
    auto values = std::bit_cast<std::array<float, lanes_at_once>>(magnitudes);
    for (float& value : values) value = Format::decode(Format::encode(value));
    return std::bit_cast<float_lanes>(values);
  }
  static word_lanes encode(float_lanes reals) noexcept {
    const auto values = std::bit_cast<std::array<float, lanes_at_once>>(reals);
    std::array<std::uint32_t, lanes_at_once> codes;
    for (std::size_t lane = 0; lane < lanes_at_once; ++lane) {
      const auto code = Format::encode(values[lane]);
      codes[lane] = Format::decode(code) == 0.0F ? Format::encode(0.0F) : code;
    }
    return std::bit_cast<word_lanes>(codes);
  }
};

#if !defined(__FAST_MATH__)  // which lets compilers cancel the additions below

/// FP8: to m is added the power of two that leaves `mantissa_bits` bits of m above the last place of the sum.
template <class Format>
  requires(Format::layout::bits == 8)
struct rounding<Format> {
  using layout = typename Format::layout;

  static constexpr int dropped = 23 - layout::mantissa_bits;
  static constexpr std::uint32_t first_exponent = static_cast<std::uint32_t>(128 - layout::bias);
  static constexpr float smallest_normal = std::bit_cast<float>(first_exponent << 23);

  static float_lanes nearest(float_lanes magnitudes) noexcept {
    const auto binades = std::bit_cast<word_lanes>(larger_of(magnitudes, every_lane(smallest_normal))) & 0x7f800000U;
    const auto pushed = std::bit_cast<float_lanes>(binades + (std::uint32_t{dropped} << 23));
    return (magnitudes + pushed) - pushed;
  }

  static word_lanes encode(float_lanes reals) noexcept {
    const float_lanes rounded = nearest(smaller_of(magnitude_of(reals), every_lane(Format::largest)));
    const auto words = std::bit_cast<word_lanes>(rounded);
    // Adding the smallest normal number makes a subnormal code the mantissa of a number of the next exponent.
    const auto low = std::bit_cast<word_lanes>(rounded + smallest_normal) - (first_exponent << 23);
    const word_lanes codes = (rounded < smallest_normal ? low : words - ((first_exponent - 1U) << 23)) >> dropped;
    return codes | (codes == 0U ? word_lanes{} : (std::bit_cast<word_lanes>(reals) >> 31) << 7);
  }
};

template <>
struct rounding<int8> {
  static constexpr float pushed = 0x1.8p23F;  ///< added, it leaves an integer, in the low bits of the sum

  static float_lanes nearest(float_lanes magnitudes) noexcept { return (magnitudes + pushed) - pushed; }

  static word_lanes encode(float_lanes reals) noexcept {
    const float_lanes bounded = smaller_of(larger_of(reals, every_lane(-128.0F)), every_lane(int8::largest));
    return std::bit_cast<word_lanes>(bounded + pushed) & 0xffU;
  }
};

/// Unsigned integers, likewise.
template <affine_format Format>
struct rounding<Format> {
  static float_lanes nearest(float_lanes magnitudes) noexcept { return rounding<int8>::nearest(magnitudes); }

  static word_lanes encode(float_lanes reals) noexcept {
    const float_lanes bounded = smaller_of(larger_of(reals, float_lanes{}), every_lane(Format::largest));
    return std::bit_cast<word_lanes>(bounded + rounding<int8>::pushed) & 0xffU;
  }
};

#endif

}  // namespace ecq::detail
