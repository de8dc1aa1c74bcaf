#pragma once
/// \file
/// Corrects lambda where the rate that a search expected is not the rate that was asked for.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/quantize/lambda_solver.hpp"

namespace ecq {

/// The rate that a pass over all weights reached.
struct measured_rate {
  double bits_per_weight = 0;
  std::uint64_t weights = 0;
  bool at_absmax = false;           ///< every lambda was 0, which no factor changes
  bool pairs_are_optional = false;  ///< the writer chose between pairs and single codes
};

/// Corrects lambda, or the lambdas of many matrices alike, by what the compressed whole really takes: a search sees
/// only a sample of a large model's rows, and estimates what streams cost besides their codes. meet_rate() runs the
/// correction.
class rate_correction {
 public:
  /// Bits per weight by which a rate may miss its target, and above which another pass is tried.
  static constexpr double tolerance = 0.02;
  static constexpr double tried_again_above = 0.015;
  /// The largest number of passes over all weights, including the first; as many again without pairs, if those may go,
  /// and one that comes last, of AbsMax or again the best one.
  static constexpr int most_attempts = 5;
  /// The largest number where passes above and below the target are known but none meets it: rates of few columns go
  /// in steps, for a change of a few scales changes the size of all of them. Halving the interval takes these passes.
  static constexpr int most_attempts_between = 24;

  explicit rate_correction(double target) noexcept : target_(target) {}

  /// The lambda to compress at if a search found `lambda`; before the first correction, `lambda` itself.
  double at(double lambda) const noexcept {
    if (stage_ == stage::finest) return 0;
    const double least = least_ > lambda && least_ > 0 ? least_ : lambda;
    return place_ == 0 ? least : detail::short_lambda(least * std::exp2(place_));
  }

  /// True if the next pass leaves codes single, whatever their streams are made for. Where lambda falls to make pairs
  /// worth their bits, the rate jumps, and only single codes meet the rates in between.
  bool without_pairs() const noexcept { return stage_ != stage::as_chosen; }

  /// Takes the rate that a pass reached; true if another pass promises a better one.
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

  /// Fails with errc::unreachable_target if the last pass missed the target. A rate below the target is no miss if
  /// lambda is 0, since AbsMax takes no more.
  result<void> check() const {
    const double missed = made_.bits_per_weight - target_;
    if (std::fabs(missed) <= least_step_or(tolerance) || (made_.at_absmax && missed < 0)) return {};
    return error(errc::unreachable_target, target_, " bits per weight were asked for, ", best_.bits,
                 " were met at best");
  }

 private:
  enum class stage : std::uint8_t { as_chosen, single, finest };

  /// Bits by which the rate falls where lambda doubles; anything steeper is a jump, anything flatter a step's top.
  static constexpr double steepest_slope = 4.0;
  static constexpr double flattest_slope = 0.02;
  static constexpr double farthest = 20.0;  ///< of place_
  static constexpr int most_secants = 3;
  static constexpr double least_interval = 0x1p-9;

  /// Four times lambda takes about one bit per weight off; later passes use the slope that the last two have shown.
  /// Where rates go in steps, secants lead from the top of one to that of the next and back: halves of the interval
  /// follow. Where the target lies between two rates of one lambda, as it were, for tiny changes make the scales wider
  /// or narrower, a rate that meets it is looked for around that lambda.
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

  /// Goes back to a pass that met the target, if one did. Begins anew without pairs, or else with the finest codes of
  /// all, which may take fewer bits than the target where few weights, or few values, have rates that jump.
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

  /// `bits`, or by how much the rate of few weights jumps: sizes of streams are multiples of 64 bytes.
  double least_step_or(double bits) const noexcept {
    return (std::max)(bits, 512.0 / static_cast<double>((std::max)(made_.weights, std::uint64_t{1})));
  }

  double target_;
  measured_rate made_{};
  double least_ = 0;           ///< lambda
  double place_ = 0;           ///< log2 of the factor of all lambdas
  double previous_place_ = 0;  ///< place_ of the pass before; the same if there was none
  double previous_excess_ = 0;
  std::optional<double> low_;   ///< the last place with a rate above the target
  std::optional<double> high_;  ///< the last place with a rate below the target
  bool absmax_takes_more_ = false;
  double centre_ = 0;  ///< the place that rates are looked for around
  int around_ = 0;     ///< how many
  /// The pass that came nearest.
  struct {
    double bits = 0;  ///< a weight
    double least = 0;
    double place = 0;
    stage at_stage = stage::as_chosen;
  } best_;
  int attempts_ = 0;
  stage stage_ = stage::as_chosen;
  bool repeats_best_ = false;  ///< the last pass is to be that one again
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
