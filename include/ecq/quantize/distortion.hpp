#pragma once
/// \file
/// How far quantised weights are from the real ones.

#include <string_view>

#include "ecq/concepts.hpp"

namespace ecq {

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
