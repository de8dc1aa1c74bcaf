#pragma once
/// \file
/// Surrogates for the entropy of the codes.

#include <concepts>
#include <string_view>
#include <type_traits>

#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// A surrogate for the entropy of the codes: the mean over all weights of `weight<Format>() * |value of the code|`.
template <class Policy>
concept regularizer = requires {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::template weight<fp8_e4m3>() } -> std::same_as<double>;
};

namespace detail {
/// A format whose values are known at compile time; the values of clusters, for example, are not.
template <class Format>
concept constant_format = requires { typename std::bool_constant<Format::decode(Format::encode(-1.0F)) == 0.0F>; };
}  // namespace detail

/// A format that rounds x and -x alike. Affine formats do not: their codes are unsigned and come with a zero point.
template <class Format>
concept symmetric_format =
    code_format<Format> && detail::constant_format<Format> && Format::decode(Format::encode(-1.0F)) == -1.0F;

namespace detail {
/// Returns the smallest positive value of a format, which is the step of its finest, uniform part: 2^-9 for E4M3, 2^-16
/// for E5M2, 1 for Int8. For formats wider than a byte, it is the value of code 1.
template <class Format>
ECQ_HOST_DEVICE constexpr float smallest_positive() {
  if constexpr (sizeof(typename Format::code_type) > 1) {
    return Format::decode(1);
  } else {
    float smallest = Format::largest;
    for (unsigned code = 0; code < 256; ++code) {
      const auto byte = static_cast<typename Format::code_type>(code);
      if (!Format::is_finite(byte)) continue;
      const float value = Format::decode(byte);
      if (value > 0.0F && value < smallest) smallest = value;
    }
    return smallest;
  }
}

template <class Format>
inline constexpr float finest_step = smallest_positive<Format>();
}  // namespace detail

/// EntQuant's regulariser: mean|k| / 128, where the value of a code is k finest steps. This is mean(4|q|) for E4M3 and
/// mean(|q| / 128) for Int8, as published, and mean(512|q|) for E5M2, so one lambda gives about the same rate in all of
/// them.
struct l1_norm {
  static constexpr std::string_view name = "l1_norm";

  template <symmetric_format Format>
  static constexpr double weight() noexcept {
    return 1.0 / (128.0 * static_cast<double>(detail::finest_step<Format>));
  }
};

namespace detail {
/// Value of l1_norm::weight, for devices too.
template <class Format>
inline constexpr double l1_weight = l1_norm::weight<Format>();
}  // namespace detail

static_assert(regularizer<l1_norm>);
static_assert(l1_norm::weight<fp8_e4m3>() == 4.0);

}  // namespace ecq
