#pragma once
/// \file
/// Surrogates for the entropy of the codes.

#include <concepts>
#include <string_view>

#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// A surrogate for the entropy of the codes: the mean over all weights of `weight<Format>() * |value of the code|`.
template <class Policy>
concept regularizer = requires {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::template weight<fp8_e4m3>() } -> std::same_as<double>;
};

/// A format that rounds x and -x alike. Affine formats do not: their codes are unsigned and come with a zero point.
template <class Format>
concept symmetric_format = code_format<Format> && Format::decode(Format::encode(-1.0F)) == -1.0F;

namespace detail {
/// The smallest positive value of a format, the step of its finest, uniform part: 2^-9 for E4M3, 2^-16 for E5M2, 1 for
/// Int8. Code 1 is that value in every format here; a format of a user's own must keep to it.
template <class Format>
inline constexpr float finest_step = Format::decode(1);
}  // namespace detail

/// EntQuant's regulariser: mean|k| / 128 with the value of a code written as k finest steps. Hence mean(4|q|) for
/// E4M3 and mean(|q| / 128) for Int8, as published, and mean(512|q|) for E5M2: one lambda means one rate, about, in
/// all of them.
struct l1_norm {
  static constexpr std::string_view name = "l1_norm";

  template <symmetric_format Format>
  static constexpr double weight() noexcept {
    return 1.0 / (128.0 * static_cast<double>(detail::finest_step<Format>));
  }
};

namespace detail {
/// l1_norm::weight, for devices too.
template <class Format>
inline constexpr double l1_weight = l1_norm::weight<Format>();
}  // namespace detail

static_assert(regularizer<l1_norm>);
static_assert(l1_norm::weight<fp8_e4m3>() == 4.0);

}  // namespace ecq
