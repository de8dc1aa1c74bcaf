#pragma once
/// \file
/// EntQuant's scales without an optimiser: one root for every group.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/concepts.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/distortion.hpp"
#include "ecq/quantize/group_weights.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// Minimises distortion + lambda * regulariser by the straight-through gradient, as EntQuant's L-BFGS does. That
/// gradient separates by group, so its zero is, for each group i by itself, the scale s at which
///
///   degree * D_i(s) / D = lambda * weight / (rows * columns) * sum over codes that are not zero of |w| / s
///
/// with D_i(s) the distortion of the group and D that of the whole matrix set to zero. The left side grows with s
/// and the right side falls; a few evaluations suffice. lambda = 0 means AbsMax. Where the gradient asks for scales far
/// below AbsMax (Int8, outliers and small lambda: clamped weights pass their gradient straight through as well), the
/// scale is AbsMax.
///
/// The result is the same on every machine and for every thread count.
template <distortion Distortion = relative_l1, regularizer Regularizer = l1_norm>
struct row_root {
  static constexpr std::string_view name = "row_root";

  double lambda = 0;  ///< at least 0; 4 times as much is about 1 bit a weight less

  template <symmetric_format Format>
  result<void> search(const cpu& backend, weights_view weights, group_layout layout, std::span<float> scales) const;
};

namespace detail {

/// 2 * tanh(ln(left / right) / 2), about ln(left / right) near 0; within [-2, 2]. Precondition: neither is negative.
inline double imbalance(double left, double right) noexcept {
  const double ratio = left / right;
  if (!(ratio < 1e12)) return 2.0;
  return 2.0 * (ratio - 1.0) / (ratio + 1.0);
}

/// value^(1 / degree) to about 1e-9, for 0 < value < infinity, by Newton's method from halved exponents.
constexpr double root_of(double value, int degree) noexcept {
  constexpr std::uint64_t one = std::bit_cast<std::uint64_t>(1.0);
  const auto distance = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(value) - one);
  double root = std::bit_cast<double>(static_cast<std::uint64_t>(distance / degree) + one);
  for (int round = 0; round < 5; ++round) {
    double quotient = value;
    for (int factor = 1; factor < degree; ++factor) quotient /= root;
    root += (quotient - root) / degree;
  }
  return root;
}

/// The root s of degree * distortion(s) * s = balance * kept(s), to about 0.2 %, of 16 significant bits at most.
/// `evaluate(s)` gives result<group_sums>; `start` is a guess, `absmax` the scale at which saturation begins.
template <class Evaluate>
ECQ_EXACT_FLOAT result<float> balanced_scale(float start, float absmax, int degree, double balance,
                                             const Evaluate& evaluate) {
  ECQ_EXACT_FLOAT_BODY
  constexpr double octave = 1.0 / 3.0;  // (1 + 1/3) / (1 - 1/3) = 2
  float below = 0.0F;                   // largest scale known to be too fine
  float above = 0.0F;                   // smallest scale known to be too coarse
  float previous = 0.0F;
  double previous_excess = 0.0;
  float scale = with_short_significand((std::max)(start, absmax));
  for (int round = 0; round < 48; ++round) {
    ECQ_TRY(sums, evaluate(scale));
    const double excess = imbalance(degree * sums.distortion * static_cast<double>(scale), balance * sums.kept);
    if (excess == 0.0) break;
    (excess < 0.0 ? below : above) = scale;
    // With many small steps the distortion goes with s^degree and the excess with (degree + 1) ln s.
    double slope = degree + 1.0;
    if (previous != 0.0F && previous != scale) {
      const double gap = 2.0 * (static_cast<double>(scale) - static_cast<double>(previous)) /
                         (static_cast<double>(scale) + static_cast<double>(previous));
      const double secant = (excess - previous_excess) / gap;
      if (secant > 0.3 * slope && secant < 3.0 * slope) slope = secant;
    }
    const double half_step = (std::clamp)(excess / (2.0 * slope), -octave, octave);
    float next = with_short_significand(
        static_cast<float>(static_cast<double>(scale) * ((1.0 - half_step) / (1.0 + half_step))));
    if (below != 0.0F && above != 0.0F && (round > 8 || next <= below || next >= above)) {
      next = with_short_significand(below / 2.0F + above / 2.0F);
      if (next <= below || next >= above || above - below < below * 0x1p-9F) return next;
    }
    if (next < absmax * 0x1p-4F) return absmax;
    previous = scale;
    previous_excess = excess;
    scale = next;
    if (half_step > -0x1p-10 && half_step < 0x1p-10) break;
  }
  return scale;
}

}  // namespace detail

template <distortion Distortion, regularizer Regularizer>
template <symmetric_format Format>
result<void> row_root<Distortion, Regularizer>::search(const cpu& backend, weights_view weights, group_layout layout,
                                                       std::span<float> scales) const {
  constexpr int degree = Distortion::degree;
  if (!(lambda >= 0.0) || !(lambda < 1e30)) {
    return error(errc::invalid_argument, "lambda is " + std::to_string(lambda) + ", not a number of at least 0");
  }
  if (lambda == 0.0) return absmax_search{}.template search<Format>(backend, weights, layout, scales);
  ECQ_CHECK(detail::check_layout(weights, layout, scales.size()));
  if (weights.empty()) return {};

  std::vector<double> distortions(scales.size());
  ECQ_CHECK(detail::for_each_group(backend, weights, layout,
                                   [&](std::size_t index, const detail::group_weights& group) -> result<void> {
                                     ECQ_TRY(sum, group.template total<degree>());
                                     distortions[index] = sum * detail::power_of_two_f64(degree * group.exponent());
                                     return {};
                                   }));
  double total = 0;
  for (const double distortion_of_group : distortions) total += distortion_of_group;
  const double balance =
      lambda * Regularizer::template weight<Format>() * (total / static_cast<double>(weights.size()));

  // Mean |difference|^degree of a uniform quantiser of step 1.
  const double mean_error = 1.0 / (static_cast<double>(1 << degree) * (degree + 1));

  return detail::for_each_group(
      backend, weights, layout, [&](std::size_t index, const detail::group_weights& group) -> result<void> {
        if (group.all_zero()) {
          scales[index] = 1.0F;
          return {};
        }
        const double balance_here = balance * detail::power_of_two_f64(-degree * group.exponent());
        ECQ_TRY(magnitudes, group.template total<1>());
        double start = balance_here * magnitudes / (degree * mean_error * static_cast<double>(group.size()));
        for (int factor = 0; factor < degree; ++factor) start /= static_cast<double>(detail::finest_step<Format>);
        const float absmax_scale = group.largest() / Format::largest;
        const float coarsest = 4.0F * (group.largest() / detail::finest_step<Format>);  // all codes are zero
        start = (std::clamp)(detail::root_of(start, degree + 1), static_cast<double>(absmax_scale),
                             static_cast<double>(coarsest));
        ECQ_TRY(scale, detail::balanced_scale(static_cast<float>(start), absmax_scale, degree, balance_here,
                                              [&](float at) { return group.template at<Format, degree>(at); }));
        scales[index] = detail::denormalize<Format>(scale, group.exponent());
        return {};
      });
}

static_assert(scale_search<row_root<>, fp8_e4m3> && scale_search<row_root<squared_error>, fp8_e4m3>);

}  // namespace ecq
