#pragma once
/// \file
/// The search for the lambda that gives a rate, one step at a time, which processors and devices share.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/quantize/balanced_scale.hpp"

namespace ecq::detail {

/// Returns `lambda` rounded to 12 significant bits, so that the last bits of a logarithm, on which machines disagree,
/// do not matter.
ECQ_HOST_DEVICE inline double short_lambda(double lambda) noexcept {
  constexpr std::uint64_t dropped = (std::uint64_t{1} << 41) - 1;
  return __builtin_bit_cast(double, (__builtin_bit_cast(std::uint64_t, lambda) + dropped / 2) & ~dropped);
}

/// Returns the lambda of a matrix whose lambda is `factor` times that of others.
ECQ_HOST_DEVICE inline double lambda_of(double lambda, double factor) noexcept {
  return factor == 1.0 ? lambda : short_lambda(lambda * factor);
}

/// Bounds of lambda. Weights of usual spread need lambdas above 2^-20. Where more rows are huge than balance_limit()
/// treats as outliers, the other rows need a lambda that is smaller by as much as FP32 numbers may differ.
inline constexpr double least_lambda = 0x1p-300;
inline constexpr double greatest_lambda = 0x1p20;

/// Returns the lambda at which Gaussian weights take about `bits` bits per weight.
ECQ_HOST_DEVICE inline double expected_lambda(double bits) noexcept {
  return short_lambda(bounded(14.5 * std::exp2(2.0 * (3.0 - bits)), least_lambda, greatest_lambda));
}

/// Search for the lambda with rate(lambda) == target, to about 0.001. The caller measures the rate at lambda() and
/// hands it to take() until finished(); lambda() is then the result, unless the target is unreachable(). The solver
/// follows the secant over log2(lambda), within the interval that is known to hold the root. It begins at lambda 0 and
/// stays there if the rate is not above the target.
class lambda_solver {
 public:
  /// The largest number of rates that a search takes.
  static constexpr int most_rounds = 49;

  lambda_solver() = default;

  /// Searches for `target` bits per weight, `fixed` of which do not depend on lambda.
  ECQ_HOST_DEVICE lambda_solver(double target, double fixed) noexcept : target_(target), fixed_(fixed) {}

  ECQ_HOST_DEVICE bool finished() const noexcept { return finished_; }
  ECQ_HOST_DEVICE bool unreachable() const noexcept { return unreachable_; }
  ECQ_HOST_DEVICE double lambda() const noexcept { return lambda_; }
  ECQ_HOST_DEVICE double target() const noexcept { return target_; }
  ECQ_HOST_DEVICE double last_rate() const noexcept { return rate_; }

  ECQ_HOST_DEVICE void take(double rate) noexcept {
    rate_ = rate;
    const double excess = rate - target_;
    if (round_++ == 0) {
      best_excess_ = excess;
      if (target_ >= rate) return finish();
      lambda_ = expected_lambda(target_ - fixed_);
      return;
    }
    if (magnitude(excess) < magnitude(best_excess_)) {
      best_ = lambda_;
      best_excess_ = excess;
    }
    if (magnitude(excess) <= 0.001) return finish();
    (excess > 0.0 ? low_ : high_) = lambda_;
    if (low_ >= greatest_lambda) {
      unreachable_ = true;
      return finish();
    }
    if (high_ != 0.0 && high_ <= least_lambda) return finish();  // the rate jumps at AbsMax
    const double next = after(excess);
    if (next == low_ || next == high_ || round_ == most_rounds) return finish();
    previous_ = lambda_;
    previous_excess_ = excess;
    lambda_ = next;
  }

 private:
  ECQ_HOST_DEVICE static double magnitude(double value) noexcept { return value < 0.0 ? -value : value; }

  ECQ_HOST_DEVICE void finish() noexcept {
    lambda_ = best_;
    finished_ = true;
  }

  ECQ_HOST_DEVICE double after(double excess) const noexcept {
    double bits_per_doubling = 0.5;
    if (previous_ != 0.0 && previous_ != lambda_) {
      const double secant = (previous_excess_ - excess) / std::log2(lambda_ / previous_);
      if (secant > 0.05 && secant < 2.0) bits_per_doubling = secant;
    }
    double next = lambda_ * std::exp2(bounded(excess / bits_per_doubling, -8.0, 8.0));
    if (low_ != 0.0 && high_ != 0.0) {
      if (round_ > 12 || next <= low_ || next >= high_) next = std::sqrt(low_ * high_);
    } else if (round_ >= 5) {  // where the rate levels off, secants creep; doubling strides soon reach any lambda
      const double stride = std::exp2(static_cast<double>(4 << (round_ < 11 ? round_ - 5 : 6)));
      const double step = excess > 0.0 ? lambda_ * stride : lambda_ / stride;
      if (excess > 0.0 ? next < step : step < next) next = step;
    }
    return short_lambda(bounded(next, least_lambda, greatest_lambda));
  }

  double target_ = 0;
  double fixed_ = 0;
  double lambda_ = 0;  ///< the lambda to measure next
  double rate_ = 0;    ///< the last one measured
  double best_ = 0;
  double best_excess_ = 0;
  double low_ = 0;   ///< a lambda whose rate is above the target
  double high_ = 0;  ///< a lambda whose rate is below the target; 0: none yet
  double previous_ = 0;
  double previous_excess_ = 0;
  int round_ = 0;
  bool finished_ = false;
  bool unreachable_ = false;
};

/// Returns the integer nearest to `count`, halves rounded up. Precondition: `count` is not negative and below 2^63.
ECQ_HOST_DEVICE constexpr std::uint64_t nearest_count(double count) noexcept {
  const auto whole = static_cast<std::uint64_t>(count);
  return whole + (count - static_cast<double>(whole) >= 0.5 ? 1U : 0U);
}

/// Returns the number of codes of the matrix that `count` codes of its sample stand for.
ECQ_EXACT_FLOAT inline std::uint64_t count_of_matrix(std::uint64_t count, double stands_for) noexcept {
  ECQ_EXACT_FLOAT_BODY
  return nearest_count(static_cast<double>(count) * stands_for);
}

}  // namespace ecq::detail
