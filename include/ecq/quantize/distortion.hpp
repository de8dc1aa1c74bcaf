#pragma once
/// \file
/// How far quantised weights are from the real ones.

#include <concepts>
#include <string_view>

namespace ecq {

/// How far the quantised weights are from the real ones: a sum over weights of `of(error)`, divided by the same sum
/// over the weights themselves. `of` is homogeneous, of(c * e) = |c|^degree * of(e); the straight-through gradient of
/// the sum with respect to ln(scale) is then degree times the sum.
template <class Policy>
concept distortion = requires(float error_value) {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::degree } -> std::convertible_to<int>;
  { Policy::of(error_value) } -> std::same_as<float>;
};

/// sum|w^ - w| / sum|w|, EntQuant's distortion.
struct relative_l1 {
  static constexpr std::string_view name = "relative_l1";
  static constexpr int degree = 1;

  static constexpr float of(float difference) noexcept { return difference < 0.0F ? -difference : difference; }
};

/// sum(w^ - w)^2 / sum w^2: the inverse of the signal-to-noise ratio.
struct squared_error {
  static constexpr std::string_view name = "squared_error";
  static constexpr int degree = 2;

  static constexpr float of(float difference) noexcept { return difference * difference; }
};

static_assert(distortion<relative_l1> && distortion<squared_error>);

}  // namespace ecq
