#pragma once
/// \file
/// EntQuant's scales without an optimiser: one root for every group.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/distortion.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/group_weights.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/scale_search.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// Scale search that minimises distortion + lambda * regulariser by the straight-through gradient, as EntQuant's L-BFGS
/// does. That gradient separates by group, so it is zero where each group i by itself has the scale s at which
///
///   degree * D_i(s) / D = lambda * weight / (rows * columns) * sum over codes that are not zero of |w| / s
///
/// where D_i(s) is the distortion of the group and D the distortion of the whole matrix set to zero. In D, the few
/// groups that stand out by more than a factor of 64 count for no more than that. The left side grows with s and the
/// right side falls; a few evaluations suffice. lambda = 0 means AbsMax. Where the gradient asks for scales far below
/// AbsMax (Int8, outliers and small lambda: clamped weights pass their gradient straight through as well), the scale is
/// AbsMax.
///
/// With row_factors, the lambda of a group is that of its row.
///
/// The result is the same on every machine and for every thread count.
template <distortion Distortion = relative_l1, regularizer Regularizer = l1_norm>
struct row_root {
  static constexpr std::string_view name = "row_root";

  double lambda = 0;  ///< at least 0; 4 times the lambda takes about 1 bit per weight less
  /// Factors of lambda, one for each row and above 0, or empty. Only for layouts whose groups lie within one row.
  std::span<const double> row_factors{};

  template <symmetric_format Format>
  result<void> search(const cpu& backend, weights_view weights, group_layout layout, std::span<float> scales) const;
};

namespace detail {

/// Runs `search` to its end and returns the scale found; `evaluate(scale)` returns result<group_sums>.
template <class Evaluate>
result<float> balanced_scale(balanced_scale_search search, const Evaluate& evaluate) {
  while (!search.finished()) {
    ECQ_TRY(sums, evaluate(search.scale()));
    search.take(sums);
  }
  return search.scale();
}

/// Fails with errc::invalid_argument unless `factors` meet the requirements of row_root::row_factors.
inline result<void> check_row_factors(double lambda, std::span<const double> factors, const group_layout& layout) {
  if (factors.empty()) return {};
  if (factors.size() != layout.rows || layout.rows_per_group != 1) {
    return error(errc::invalid_argument, factors.size(), " row factors do not fit ", layout.rows, " rows with ",
                 layout.rows_per_group, " rows per scale");
  }
  for (std::size_t row = 0; row < factors.size(); ++row) {
    if (factors[row] > 0.0 && lambda_of(lambda, factors[row]) < 1e30) continue;
    return error(errc::invalid_argument, "row ", row, ": lambda factor ", factors[row], " is out of range");
  }
  return {};
}

}  // namespace detail

template <distortion Distortion, regularizer Regularizer>
template <symmetric_format Format>
result<void> row_root<Distortion, Regularizer>::search(const cpu& backend, weights_view weights, group_layout layout,
                                                       std::span<float> scales) const {
  constexpr int degree = Distortion::degree;
  if (!(lambda >= 0.0) || !(lambda < 1e30)) {
    return error(errc::invalid_argument, "lambda is ", lambda, ", not from 0 to 1e30");
  }
  if (lambda == 0.0) return absmax_search{}.template search<Format>(backend, weights, layout, scales);
  ECQ_CHECK(detail::check_layout(weights, layout, scales.size()));
  ECQ_CHECK(detail::check_row_factors(lambda, row_factors, layout));
  if (weights.empty()) return {};

  std::vector<double> distortions(scales.size());
  ECQ_CHECK(detail::for_each_group(backend, weights, layout,
                                   [&](std::size_t index, const detail::group_weights& group) -> result<void> {
                                     ECQ_TRY(sum, group.template total<Distortion>());
                                     distortions[index] = sum * detail::power_of_two_f64(degree * group.exponent());
                                     return {};
                                   }));
  const double limit =
      detail::balance_limit_of(distortions.size(), [&](std::size_t index) { return distortions[index]; });
  const double total = detail::sum_over_groups(
      distortions.size(), [&](std::size_t index) { return (std::min)(distortions[index], limit); });
  const auto balance_at = [&](double lambda_here) {
    return lambda_here * Regularizer::template weight<Format>() * (total / static_cast<double>(weights.size()));
  };
  const double balance = balance_at(lambda);

  return detail::for_each_group(
      backend, weights, layout, [&](std::size_t index, const detail::group_weights& group) -> result<void> {
        if (group.all_zero()) {
          scales[index] = detail::scale_of_zeros<Format>();
          return {};
        }
        const double of_row = row_factors.empty()
                                  ? balance
                                  : balance_at(detail::lambda_of(lambda, row_factors[index / layout.groups_across()]));
        const double balance_here = of_row * detail::power_of_two_f64(-degree * group.exponent());
        ECQ_TRY(magnitudes, group.template total<relative_l1>());
        ECQ_TRY(scale, detail::balanced_scale(detail::search_of_group<Format>(degree, balance_here, magnitudes,
                                                                              group.size(), group.largest()),
                                              [&](float at) { return group.template at<Format, Distortion>(at); }));
        scales[index] = detail::denormalize<Format>(scale, group.exponent());
        return {};
      });
}

static_assert(scale_search<row_root<>, fp8_e4m3> && scale_search<row_root<squared_error>, fp8_e4m3>);

}  // namespace ecq
