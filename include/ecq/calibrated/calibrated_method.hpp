#pragma once
/// \file
/// Compression by error feedback, matrix after matrix in the order of computation. Needs Eigen 3.3 (target
/// ecq::calibrated).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/calibrated/calibration_pass.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/input_factor.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/calibrated/step_by_rms.hpp"
#include "ecq/calibrated/trellis_feedback.hpp"
#include "ecq/calibrated/trellis_order.hpp"
#include "ecq/calibrated/uniform_format.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/methods/lambda_search.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/tcq_method.hpp"
#include "ecq/methods/tcq_plan.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/stored_scale.hpp"
#include "ecq/quantize/target_bits.hpp"
#include "ecq/quantize/tcq.hpp"
#include "ecq/quantize/trellis_codes.hpp"
#include "ecq/quantize/trellis_search.hpp"

namespace ecq {

/// Options of calibrated_method. Exactly one of target_bits and lambda is set.
struct calibration {
  std::shared_ptr<calibration_pass> pass;
  std::optional<double> target_bits{};  ///< bits per weight over the whole model, everything counted
  std::optional<double> lambda{};       ///< lambda of step_by_rms, before the factors of matrices
  factor_options factor{};   ///< damping is raised to that of the step (step_by_rms::damping), or to a tenth of it with
                             ///< a trellis
  double correction = 0.75;  ///< error_feedback::correction
  /// log2 of the number of states of a trellis that codes of Int8 lie on, 2..5, for less noise at the same rate; empty:
  /// no trellis.
  std::optional<unsigned> state_bits{};
};

namespace detail {

/// Codes of matrices, made in the order of computation and kept until they are packed. If blocks are packed in that
/// order, memory holds the codes of one block; any other order needs more memory and gives the same codes.
template <uniform_format Format>
class calibrated_codes {
 public:
  /// With a trellis, `plan` describes it.
  calibrated_codes(const calibration& options, matrix_streams streams, const tcq_plan& plan)
      : options_(options), walk_(plan.walk), bits_(plan.bits) {
    for (const auto& of_stream : streams) {
      std::uint64_t first = 0;
      for (const named_weights& matrix : of_stream) {
        numbers_[matrix.name] = matrices_.size();
        matrices_.push_back(matrix);
        firsts_.push_back(first);
        first += matrix.weights.size();
      }
    }
  }

  /// Fails with errc::invalid_argument if the names of matrices are not unique.
  result<void> check() const {
    if (numbers_.size() == matrices_.size()) return {};
    return error(errc::invalid_argument, "calibration: ", matrices_.size(), " matrices have only ", numbers_.size(),
                 " different names");
  }

  /// Hands out the codes and the scale of a matrix at a lambda. The pass starts over for another lambda, and for a
  /// matrix that has been handed out before.
  result<void> take(const cpu& backend, std::size_t index, double lambda, std::span<std::byte> codes, bf16& scale) {
    if (lambda_ != lambda || handed_out_.contains(index)) {
      lambda_.reset();
      waiting_.clear();
      handed_out_.clear();
      ECQ_CHECK(options_.pass->restart());
      lambda_ = lambda;
    }
    while (!waiting_.contains(index)) ECQ_CHECK(advance(backend));
    const auto made = waiting_.find(index);
    std::ranges::copy(std::as_bytes(std::span(made->second.codes)), codes.begin());
    scale = made->second.scale;
    waiting_.erase(made);
    handed_out_.insert(index);
    return {};
  }

 private:
  struct coded_matrix {
    std::vector<std::uint8_t> codes;
    bf16 scale;
  };

  /// Quantises the matrices of the next input.
  result<void> advance(const cpu& backend) {
    ECQ_TRY(names, options_.pass->next());
    if (names.empty()) return error(errc::not_found, "calibration has no input for it");
    // Matrices of one input share its factor, but on a trellis only if they have the same order of columns.
    std::map<std::size_t, std::vector<std::size_t>> by_phase;
    std::set<std::size_t> all;
    for (const std::string& name : names) {
      const auto known = numbers_.find(name);
      if (known == numbers_.end()) continue;  // stays as it is
      const std::size_t index = known->second;
      if (waiting_.contains(index) || handed_out_.contains(index) || !all.insert(index).second) {
        return error(errc::invalid_argument, "calibration named tensor '", name, "' twice");
      }
      by_phase[phase_of(index)].push_back(index);
    }
    if (by_phase.empty()) return {};
    ECQ_TRY(moments, options_.pass->moments());
    while (!by_phase.empty()) {
      const auto& [phase, indices] = *by_phase.begin();
      const std::string& name = matrices_[indices.front()].name;
      auto factor = factor_of(backend, by_phase.size() == 1 ? std::exchange(moments, {}) : moments, phase);
      if (!factor) return std::move(factor).error().within("input of tensor '", name, "'");
      for (const std::size_t index : indices) {
        if (auto done = quantize(backend, index, *factor); !done) {
          return std::move(done).error().within("tensor '", matrices_[index].name, "'");
        }
      }
      by_phase.erase(by_phase.begin());
    }
    return {};
  }

  std::size_t phase_of(std::size_t index) const {
    return options_.state_bits ? trellis_order::phase(matrices_[index].weights.columns(), firsts_[index]) : 0;
  }

  result<input_factor> factor_of(const cpu& backend, input_moments moments, std::size_t phase) const {
    factor_options how = options_.factor;
    const double share = options_.state_bits ? trellis_feedback::damping_share : 1;
    how.damping = (std::max)(how.damping, share * step_by_rms{*lambda_}.damping());
    if (options_.state_bits) {
      ECQ_CHECK(moments.check(backend));
      const trellis_order order(moments.width, phase);
      moments = in_order(std::move(moments), order.columns());
    }
    return input_factor::make(backend, moments, how);
  }

  result<void> quantize(const cpu& backend, std::size_t index, const input_factor& input) {
    const named_weights& matrix = matrices_[index];
    const weights_view& weights = matrix.weights;
    coded_matrix made{std::vector<std::uint8_t>(weights.size()), bf16(1.0F)};
    const double lambda = lambda_of(*lambda_, matrix.lambda_factor);
    if (!weights.empty() && options_.state_bits) {
      ECQ_TRY(steps, trellis_steps(backend, weights, lambda, {}, false));
      made.scale = stored_scale<Format>(steps.front());
      const trellis_feedback feedback{.input = &input,
                                      .first = firsts_[index],
                                      .walk = walk_,
                                      .bits = bits_,
                                      .step = static_cast<float>(made.scale),
                                      .correction = options_.correction};
      ECQ_CHECK(feedback.quantize(backend, weights, made.codes));
    } else if (!weights.empty()) {
      ECQ_TRY(scale, step_by_rms{lambda}.scale_of<Format>(backend, weights));
      const error_feedback feedback{.input = &input, .scale = scale, .correction = options_.correction};
      ECQ_CHECK(feedback.quantize<Format>(backend, weights, made.codes, std::span(&made.scale, 1)));
    }
    std::vector<float> decoded(weights.size());
    const auto step = static_cast<float>(made.scale);
    std::transform(made.codes.begin(), made.codes.end(), decoded.begin(),
                   [&](std::uint8_t code) { return Format::decode(code) * step; });
    const weights_view all = weights.with_exact({});
    for (const std::uint64_t position : weights.exact()) {
      if (position >= weights.size()) break;  // packing the matrix reports the error
      const auto at = static_cast<std::size_t>(position);
      all.load(at / weights.columns(), at % weights.columns(), {&decoded[at], 1});
    }
    ECQ_CHECK(options_.pass->replace(matrix.name, {decoded.data(), weights.rows(), weights.columns()}));
    waiting_.emplace(index, std::move(made));
    return {};
  }

  calibration options_;
  std::vector<named_weights> matrices_;
  std::vector<std::uint64_t> firsts_;  ///< position of each matrix in its stream
  trellis walk_;
  index_bits bits_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
  std::optional<double> lambda_;  ///< lambda of the pass that is under way
  std::map<std::size_t, coded_matrix> waiting_;
  std::set<std::size_t> handed_out_;
};

template <uniform_format Format>
class prepared_calibration final : public prepared_method {
 public:
  prepared_calibration(const calibration& options, matrix_streams streams, const tcq_plan& plan)
      : codes_(std::make_unique<calibrated_codes<Format>>(options, streams, plan)), lambda_(plan.lambda) {
    if (options.state_bits) walk_ = plan.walk;
  }

  result<void> check() const { return codes_->check(); }

  void describe(std::size_t, const weights_view& weights, packed_matrix& described) const override {
    described.template set_format<Format>();
    described.layout = per_tensor{}.layout(weights.rows(), weights.columns());
  }

  result<void> encode(const cpu& backend, std::size_t index, const weights_view&, const rate_correction& correction,
                      packed_matrix& described, std::span<std::byte> elements) const override {
    bf16 scale(1.0F);
    ECQ_CHECK(codes_->take(backend, index, correction.at(lambda_), elements, scale));
    std::ranges::fill(described.scales, scale);
    return {};
  }

  double lambda(const rate_correction& correction) const override { return correction.at(lambda_); }

  stream_options options(const stream_options& given) const override {
    stream_options with_trellis = given;
    if (walk_) with_trellis.trellis = walk_;
    return with_trellis;
  }

 private:
  std::unique_ptr<calibrated_codes<Format>> codes_;  // encode() is const but advances the pass
  double lambda_;
  std::optional<trellis> walk_;
};

}  // namespace detail

/// Compression by error feedback with the moments of an engine's own forward pass, corrected for the matrices quantised
/// before. Each matrix has one step, by step_by_rms and named_weights::lambda_factor. A target of bits takes a second
/// pass if feedback changes the rate by more than rate_correction::tried_again_above. Matrices that the pass does not
/// name are errors (errc::not_found); matrices that it names but that are not compressed stay as they are.
///
///   any_method(std::make_shared<const calibrated_method<int8>>(calibration{.pass = engine, .target_bits = 3.0}))
template <uniform_format Format>
  requires(!affine_format<Format>)
class calibrated_method final : public compression_method {
 public:
  explicit calibrated_method(calibration options) : options_(std::move(options)) {}

  std::string settings() const override {
    const std::string_view format = Format::name;
    std::string what = detail::text_of(format, ", ", error_feedback::name);
    if (options_.state_bits) what = detail::text_of(what, ", trellis of ", 1U << *options_.state_bits, " states");
    return options_.target_bits ? detail::text_of(what, ", bits ", *options_.target_bits)
                                : detail::text_of(what, ", lambda ", options_.lambda.value_or(0));
  }

  result<void> check() const override {
    if (options_.pass == nullptr) return error(errc::invalid_argument, "calibration needs a forward pass");
    if (options_.target_bits.has_value() == options_.lambda.has_value()) {
      return error(errc::invalid_argument, "calibration needs either target bits or a lambda");
    }
    if (options_.lambda && !(*options_.lambda >= 0 && *options_.lambda <= 1e30)) {
      return error(errc::invalid_argument, "lambda is ", *options_.lambda, ", not from 0 to 1e30");
    }
    if (options_.state_bits && !std::is_same_v<Format, int8>) {
      return error(errc::invalid_argument, "calibration: codes on a trellis must be int8, not ", Format::name);
    }
    return options_.state_bits ? trellis_options().check() : result<void>();
  }

  std::optional<double> target_bits() const override { return options_.target_bits; }
  std::string_view stage() const override { return target_bits() ? "searching lambda" : std::string_view(); }

  result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                         const method_setting& setting) const override {
    detail::tcq_plan plan;
    if (options_.state_bits) {
      ECQ_TRY(found, detail::tcq_method(trellis_options()).find_plan(backend, streams, setting));
      plan = std::move(found);
    } else if (options_.target_bits) {
      const auto rounding = detail::quantizer_at_lambda::of<Format>([](double at) { return step_by_rms{at}; });
      ECQ_TRY(found, detail::find_lambdas(backend, streams, *options_.target_bits, false, setting, rounding));
      if (!found.empty()) plan.lambda = found.front();
    } else {
      plan.lambda = options_.lambda.value_or(0);
    }
    auto prepared = std::make_unique<const detail::prepared_calibration<Format>>(options_, streams, plan);
    ECQ_CHECK(prepared->check());
    return std::unique_ptr<const prepared_method>(std::move(prepared));
  }

 private:
  /// Returns the options by which the step and the bits of indices are found: one scale per matrix.
  tcq trellis_options() const {
    return {.state_bits = *options_.state_bits,
            .target_bits = options_.target_bits,
            .lambda = options_.lambda,
            .shortest_scaled_row = (std::numeric_limits<std::size_t>::max)()};
  }

  calibration options_;
};

}  // namespace ecq
