#pragma once
/// \file
/// Measures of how far quantised weights are from the real ones.

#include <concepts>
#include <string_view>

namespace ecq {

namespace detail {

/// Whether a distortion meets its requirements, as far as the compiler can check: it is 0 at 0, equal for an error and
/// its negative, and homogeneous of its degree.
template <class Policy>
consteval bool is_homogeneous() {
  if (Policy::degree < 1 || Policy::degree > 8) return false;
  for (const float error_value : {0.0F, 0.25F, 1.0F, 3.0F}) {
    float power = 1.0F;
    for (int factor = 0; factor < Policy::degree; ++factor) power *= 2.0F;
    if (Policy::of(-error_value) != Policy::of(error_value)) return false;
    if (Policy::of(2.0F * error_value) != power * Policy::of(error_value)) return false;
  }
  return Policy::of(0.0F) == 0.0F;
}

}  // namespace detail

/// A measure of how far the quantised weights are from the real ones: a sum over weights of `of(error)`, divided by the
/// same sum over the weights themselves. `of` is homogeneous, of(c * e) = |c|^degree * of(e); the straight-through
/// gradient of the sum with respect to ln(scale) is then degree times the sum. `of` is constexpr, so that a wrong
/// `degree` is an error at compile time.
template <class Policy>
concept distortion = requires(float error_value) {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::degree } -> std::convertible_to<int>;
  { Policy::of(error_value) } -> std::same_as<float>;
} && detail::is_homogeneous<Policy>();

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
