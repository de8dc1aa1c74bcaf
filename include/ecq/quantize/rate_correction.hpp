#pragma once
/// \file
/// Correction of lambda where compression misses the rate that was asked for.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/quantize/lambda_solver.hpp"

namespace ecq {

/// Rate that a pass over all weights reached.
struct measured_rate {
  double bits_per_weight = 0;
  std::uint64_t weights = 0;
  bool at_absmax = false;           ///< every lambda was 0, which no factor changes
  bool pairs_are_optional = false;  ///< the writer chose between pairs and single codes
};

/// Correction of lambda, or of the lambdas of many matrices alike, by the rate that compression really reaches. A
/// search sees only a sample of a large model's rows, and only estimates what streams cost besides their codes.
/// meet_rate() runs the correction.
class rate_correction {
 public:
  /// Bits per weight by which a rate may miss its target, and the miss above which another pass is tried.
  static constexpr double tolerance = 0.02;
  static constexpr double tried_again_above = 0.015;
  /// Largest number of passes over all weights, including the first. As many passes without pairs may follow if pairs
  /// are optional, and a last pass, which uses AbsMax or repeats the best pass.
  static constexpr int most_attempts = 5;
  /// Largest number of passes where passes above and below the target are known but none meets it. Rates of matrices
  /// with few columns move in steps, since a change of a few scales changes the size of all of them. Halving the
  /// interval takes these passes.
  static constexpr int most_attempts_between = 24;

  explicit rate_correction(double target) noexcept : target_(target) {}

  /// Returns the lambda to compress at if a search found `lambda`; before the first correction, `lambda` itself.
  double at(double lambda) const noexcept {
    if (stage_ == stage::finest) return 0;
    const double least = least_ > lambda && least_ > 0 ? least_ : lambda;
    return place_ == 0 ? least : detail::short_lambda(least * std::exp2(place_));
  }

  /// Whether the next pass leaves codes single, whatever their streams are optimised for. Where a falling lambda makes
  /// pairs worth their bits, the rate jumps, and only single codes meet the rates in between.
  bool without_pairs() const noexcept { return stage_ != stage::as_chosen; }

  /// Takes the rate that a pass reached and returns whether another pass promises a better one.
  bool again(const measured_rate& made) noexcept {
    const double excess = made.bits_per_weight - target_;
    made_ = made;
    if (best_.bits == 0 || std::fabs(excess) < std::fabs(best_.bits - target_)) {
      best_ = {made.bits_per_weight, least_, place_, stage_};
    }
    if (repeats_best_ || std::fabs(excess) <= least_step_or(tried_again_above) || (made.at_absmax && excess < 0)) {
      return false;
    }
    const double shown = place_ == previous_place_ ? 0 : (previous_excess_ - excess) / (place_ - previous_place_);
    const bool jumps = shown >= steepest_slope && excess * previous_excess_ < 0;
    if (!made.at_absmax) (excess > 0 ? low_ : high_) = place_;
    const bool between = high_ && (low_ || absmax_takes_more_);
    const bool may_drop_pairs = made.pairs_are_optional && !without_pairs();
    const bool met = std::fabs(best_.bits - target_) <= least_step_or(tolerance);
    const int most = between && !may_drop_pairs && !met ? most_attempts_between : most_attempts;
    if (++attempts_ >= most || (jumps && may_drop_pairs)) return next_stage();
    if (made.at_absmax) {
      absmax_takes_more_ = true;
      least_ = detail::expected_lambda(target_);
      return true;
    }
    const double step = next_step(excess, shown, between);
    previous_place_ = place_;
    previous_excess_ = excess;
    place_ = std::clamp(place_ + step, -farthest, farthest);
    return true;
  }

  /// Fails with errc::unreachable_target if the last pass missed the target. A rate below the target is not a miss if
  /// lambda is 0, since AbsMax takes no more bits.
  result<void> check() const {
    const double missed = made_.bits_per_weight - target_;
    if (std::fabs(missed) <= least_step_or(tolerance) || (made_.at_absmax && missed < 0)) return {};
    return error(errc::unreachable_target, target_, " bits per weight were requested, but the closest rate reached is ",
                 best_.bits);
  }

 private:
  enum class stage : std::uint8_t { as_chosen, single, finest };

  /// Bits by which the rate falls when lambda doubles; a steeper fall is a jump, a flatter one the top of a step.
  static constexpr double steepest_slope = 4.0;
  static constexpr double flattest_slope = 0.02;
  static constexpr double farthest = 20.0;  ///< largest magnitude of place_
  static constexpr int most_secants = 3;
  static constexpr double least_interval = 0x1p-9;

  /// Returns the change of place_ for the next pass. Four times the lambda takes about one bit per weight off; later
  /// passes use the slope that the last two have shown. Where rates move in steps, secants lead from the top of one
  /// step to that of the next and back, so halves of the interval follow. Tiny changes of lambda may make the scales
  /// wider or narrower, so that the target lies between two rates of practically one lambda; then lambdas around that
  /// one are tried.
  double next_step(double excess, double shown, bool between) noexcept {
    const double step = excess / (shown > flattest_slope && shown < steepest_slope ? shown : 0.5);
    if (between) {
      const double low = low_.value_or(-farthest), next = place_ + step;
      if (around_ > 0 || *high_ - low < least_interval) {
        if (around_++ == 0) centre_ = low;
        const int distance = (around_ + 1) / 2;
        return centre_ + (around_ % 2 != 0 ? distance : -distance) / 32.0 - place_;
      }
      const bool halves = attempts_ > most_secants || next <= low || next >= *high_;
      return halves ? (low + *high_) / 2 - place_ : step;
    }
    if (attempts_ < 2 || shown > flattest_slope) return step;
    return std::copysign((std::max)(std::fabs(step), std::exp2(attempts_ - 3)), excess);
  }

  /// Goes back to the best pass if it met the target. Otherwise starts again without pairs, or else with the finest
  /// codes of all, which may take fewer bits than the target where the rates of few weights, or of few values, jump.
  /// Returns whether another pass follows.
  bool next_stage() noexcept {
    const double allowed = least_step_or(tolerance);
    if (std::fabs(made_.bits_per_weight - target_) <= allowed) return false;
    if (std::fabs(best_.bits - target_) <= allowed) {
      repeats_best_ = true;
      least_ = best_.least;
      place_ = best_.place;
      stage_ = best_.at_stage;
      return true;
    }
    if (stage_ == stage::finest) return false;
    if (made_.pairs_are_optional && stage_ == stage::as_chosen) {
      stage_ = stage::single;
      place_ = previous_place_ = least_ = 0;
      low_ = high_ = std::nullopt;
      absmax_takes_more_ = false;
      attempts_ = around_ = 0;
      return true;
    }
    if (made_.at_absmax) return false;
    stage_ = stage::finest;
    return true;
  }

  /// Returns `bits`, or the step of the rate of few weights if that is larger: sizes of streams are multiples of 64
  /// bytes.
  double least_step_or(double bits) const noexcept {
    return (std::max)(bits, 512.0 / static_cast<double>((std::max)(made_.weights, std::uint64_t{1})));
  }

  double target_;
  measured_rate made_{};
  double least_ = 0;           ///< lower bound of lambda
  double place_ = 0;           ///< log2 of the factor of all lambdas
  double previous_place_ = 0;  ///< place_ of the pass before; the same as place_ if there was none
  double previous_excess_ = 0;
  std::optional<double> low_;   ///< the last place with a rate above the target
  std::optional<double> high_;  ///< the last place with a rate below the target
  bool absmax_takes_more_ = false;
  double centre_ = 0;  ///< the place around which places are tried
  int around_ = 0;     ///< number of places tried around centre_
  /// Pass whose rate came nearest to the target.
  struct {
    double bits = 0;  ///< per weight
    double least = 0;
    double place = 0;
    stage at_stage = stage::as_chosen;
  } best_;
  int attempts_ = 0;
  stage stage_ = stage::as_chosen;
  bool repeats_best_ = false;  ///< the last pass repeats the best one
};

/// Runs `pass(correction)`, which compresses all weights at correction.at(their lambdas) and returns a
/// result<measured_rate>, until the rate meets `target` bits per weight; runs it once if there is no target. Only the
/// last pass counts. Errors: those of the pass; errc::unreachable_target.
template <class Pass>
result<void> meet_rate(std::optional<double> target, Pass&& pass) {
  rate_correction correction(target.value_or(0));
  for (;;) {
    ECQ_TRY(made, pass(std::as_const(correction)));
    if (!target || made.weights == 0) return {};
    if (!correction.again(made)) return correction.check();
  }
}

}  // namespace ecq
