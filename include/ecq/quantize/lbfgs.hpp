#pragma once
/// \file
/// EntQuant's scales, found by L-BFGS as EntQuant's authors do. Needs LBFGS++ and Eigen (target ecq::lbfgs); no other
/// header includes this one.

#include <LBFGS.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/distortion.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/group_weights.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/scale_search.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// Scale search that minimises sum distortion(w^ - w) / (sum distortion(w) + 1e-6) + lambda * mean(weight * |q|) over
/// log2 of the scales, by L-BFGS from AbsMax with the straight-through gradient (rounding and clamping count as the
/// identity). The code follows the definition, one weight at a time, to check row_root, which finds the same scales far
/// sooner. Eigen and the C library compute its sums, so scales may differ in their last bits from machine to machine.
///
/// This gradient is not that of the loss, so line searches stall where the two differ. The search then restarts from
/// where it is, and ends when restarts no longer help.
template <distortion Distortion = relative_l1, regularizer Regularizer = l1_norm>
struct lbfgs {
  static constexpr std::string_view name = "lbfgs";

  double lambda = 0;         ///< at least 0
  int max_iterations = 500;  ///< in all, restarts included; at least 1
  int history = 100;         ///< pairs of steps and gradient changes that are kept; at least 1

  template <symmetric_format Format>
  result<void> search(const cpu& backend, weights_view weights, group_layout layout, std::span<float> scales) const;
};

namespace detail {

/// Loss and straight-through gradient over log2 scales.
template <class Format, class Distortion, class Regularizer>
class entquant_loss {
 public:
  using vector = Eigen::VectorXd;

  entquant_loss(const cpu& backend, const weights_view& weights, const group_layout& layout, double lambda)
      : backend_(backend), weights_(weights), layout_(layout), losses_(layout.count()) {
    penalty_ = lambda * Regularizer::template weight<Format>() / static_cast<double>(weights.size());
  }

  /// Sums the distortion of all weights set to zero, to which the loss is relative.
  result<void> prepare() {
    ECQ_CHECK(each_group([&](std::size_t group, std::span<const float> values, double& loss) {
      static_cast<void>(group);
      for (const float value : values) loss += static_cast<double>(Distortion::of(value));
    }));
    double total = 1e-6;
    for (const double loss : losses_) total += loss;
    per_distortion_ = 1.0 / total;
    return {};
  }

  double operator()(const vector& log2_scales, vector& gradient) {
    gradient.setZero();
    const auto outcome = each_group([&](std::size_t group, std::span<const float> values, double& loss) {
      const auto index = static_cast<Eigen::Index>(group);
      // The solver may try NaN, which a number format need not accept.
      const double exponent = log2_scales[index] > -126.0 ? (std::min)(log2_scales[index], 127.0) : -126.0;
      const auto scale = static_cast<float>(std::exp2(exponent));
      double distortion_here = 0;
      double magnitudes = 0;
      double reals = 0;
      for (const float value : values) {
        const float real = value / scale;
        const float quantized = Format::decode(Format::encode(real));
        distortion_here += static_cast<double>(Distortion::of(quantized * scale - value));
        magnitudes += static_cast<double>(std::abs(quantized));
        if (quantized != 0.0F) reals += static_cast<double>(std::abs(real));
      }
      loss += per_distortion_ * distortion_here + penalty_ * magnitudes;
      constexpr double ln2 = 0.693147180559945309;
      gradient[index] += ln2 * (Distortion::degree * per_distortion_ * distortion_here - penalty_ * reals);
    });
    if (!outcome) throw std::bad_alloc();
    double loss = 0;
    for (const double part : losses_) loss += part;
    return loss;
  }

 private:
  /// Calls `task(group, weights of one of its rows, loss of the group)` for every row of every group; the rows of a
  /// group follow one another.
  template <class Task>
  result<void> each_group(const Task& task) {
    std::fill(losses_.begin(), losses_.end(), 0.0);
    return parallel_for(backend_, layout_.groups_down(), [&](std::size_t down) -> result<void> {
      std::vector<float> values;
      for (std::size_t across = 0; across < layout_.groups_across(); ++across) {
        const group_area area = area_of(layout_, down, across);
        const std::size_t group = down * layout_.groups_across() + across;
        values.resize(area.columns);
        for (std::size_t row = 0; row < area.rows; ++row) {
          weights_.load(area.first_row + row, area.first_column, values);
          task(group, std::span<const float>(values), losses_[group]);
        }
      }
      return {};
    });
  }

  const cpu& backend_;
  const weights_view& weights_;
  const group_layout& layout_;
  std::vector<double> losses_;
  double per_distortion_ = 0;
  double penalty_ = 0;
};

}  // namespace detail

template <distortion Distortion, regularizer Regularizer>
template <symmetric_format Format>
result<void> lbfgs<Distortion, Regularizer>::search(const cpu& backend, weights_view weights, group_layout layout,
                                                    std::span<float> scales) const {
  if (!(lambda >= 0.0) || !(lambda < 1e30) || max_iterations < 1 || history < 1) {
    return error(errc::invalid_argument, "lambda ", lambda, ", ", max_iterations, " iterations or history ", history,
                 " is out of range");
  }
  ECQ_CHECK(absmax_search{}.template search<Format>(backend, weights, layout, scales));
  if (lambda == 0.0 || weights.empty()) return {};
  try {
    detail::entquant_loss<Format, Distortion, Regularizer> loss(backend, weights, layout, lambda);
    ECQ_CHECK(loss.prepare());
    using vector = Eigen::VectorXd;
    LBFGSpp::LBFGSParam<double> parameters;
    parameters.m = history;
    parameters.epsilon = 1e-7;
    parameters.epsilon_rel = 1e-12;
    parameters.past = 1;
    parameters.delta = 1e-9;
    parameters.linesearch = LBFGSpp::LBFGS_LINESEARCH_BACKTRACKING_STRONG_WOLFE;
    parameters.max_linesearch = 25;
    parameters.ftol = 1e-4;
    parameters.wolfe = 0.5;  // at 0.9 a long first step leaves Int8's basin at lambda = 256
    vector log2_scales(static_cast<Eigen::Index>(scales.size()));
    for (std::size_t group = 0; group < scales.size(); ++group) {
      log2_scales[static_cast<Eigen::Index>(group)] = std::log2(static_cast<double>(scales[group]));
    }
    double before = (std::numeric_limits<double>::infinity)();
    int failures = 0;
    for (int left = max_iterations; left > 0;) {
      parameters.max_iterations = left;
      double reached = 0;
      try {
        LBFGSpp::LBFGSSolver<double, LBFGSpp::LineSearchNocedalWright> solver(parameters);
        left -= solver.minimize(loss, log2_scales, reached);
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception&) {
        if (++failures > 4) break;
        --left;  // the line search failed: `log2_scales` is the last point it tried
        continue;
      }
      if (!(reached < before * (1 - 1e-6))) break;
      before = reached;
    }
    for (std::size_t group = 0; group < scales.size(); ++group) {
      const double scale = std::exp2(log2_scales[static_cast<Eigen::Index>(group)]);
      if (!(scale > 0.0)) continue;  // the solver lost its way: keep AbsMax
      scales[group] = detail::denormalize<Format>(static_cast<float>((std::clamp)(scale, 1e-37, 1e37)), 0);
    }
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "allocation failed");
  }
  return {};
}

static_assert(scale_search<lbfgs<>, fp8_e4m3>);

}  // namespace ecq
