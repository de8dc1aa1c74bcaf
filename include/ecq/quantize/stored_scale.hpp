#pragma once
/// \file
/// Scales as they are stored: BF16, positive, normal, and small enough that no code overflows.

#include <cstdint>
#include <limits>

#include "ecq/base/config.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/quantize/balanced_scale.hpp"

namespace ecq {

namespace detail {
inline constexpr float smallest_normal_float = (std::numeric_limits<float>::min)();
inline constexpr float largest_float = (std::numeric_limits<float>::max)();
}  // namespace detail

/// Returns the largest stored scale. Scales lie between 2^-126 and this one, so that scale, 1 / scale and code * scale
/// are finite normal numbers (or zero). Weights so small that their scale would lie below this range lose codes;
/// weights so large that it would lie above keep too many.
template <number_format Format>
ECQ_HOST_DEVICE constexpr bf16 largest_scale() noexcept {
  // Int8 has one code beyond `largest`, hence the step down.
  const float bound = detail::largest_float / (Format::largest + detail::smallest_positive<Format>());
  return bf16::from_bits(static_cast<bf16::code_type>(__builtin_bit_cast(std::uint32_t, bound) >> 16));
}

namespace detail {
/// Returns largest_scale(), computed at compile time where possible.
template <number_format Format>
ECQ_HOST_DEVICE constexpr bf16 kept_largest_scale() noexcept {
  if constexpr (constant_format<Format>) {
    constexpr bf16 largest = largest_scale<Format>();
    return largest;
  } else {
    return largest_scale<Format>();
  }
}
}  // namespace detail

/// Returns `scale` rounded to the nearest BF16 number between 2^-126 and largest_scale(); NaN and numbers that are not
/// positive give 1.
template <number_format Format>
ECQ_HOST_DEVICE constexpr bf16 stored_scale(float scale) noexcept {
  constexpr bf16 smallest(detail::smallest_normal_float);
  const bf16 largest = detail::kept_largest_scale<Format>();
  if (!(scale > 0.0F)) return bf16(1.0F);
  if (scale <= smallest) return smallest;
  return scale >= largest ? largest : bf16(scale);
}

namespace detail {

/// Returns the scale of a group of zeros: 1, or the smallest one if the format has no code for 0.
template <number_format Format>
float scale_of_zeros() noexcept {
  return Format::decode(Format::encode(0.0F)) == 0.0F ? 1.0F : smallest_normal_float;
}

/// Returns scale * 2^exponent, limited to the bounds of stored scales. Precondition: `scale` is a positive normal
/// number.
template <number_format Format>
ECQ_HOST_DEVICE constexpr float denormalize(float scale, int exponent) noexcept {
  const double exact = static_cast<double>(scale) * power_of_two_f64(exponent);
  const auto largest = static_cast<double>(static_cast<float>(kept_largest_scale<Format>()));
  constexpr auto smallest = static_cast<double>(smallest_normal_float);
  return static_cast<float>(exact < smallest ? smallest : exact > largest ? largest : exact);
}
}  // namespace detail

}  // namespace ecq
