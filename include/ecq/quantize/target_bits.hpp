#pragma once
/// \file
/// Search for the lambda that gives a model the bits per weight asked for.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/packed_scales.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/row_root.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"

namespace ecq {

/// No overhead: the rate is the entropy of the codes (and the scales, if they count).
struct no_overhead {
  double operator()(std::size_t, std::uint64_t) const noexcept { return 0; }
};

/// Options for measuring the rate of a model.
struct rate_options {
  std::uint64_t sample_limit = std::uint64_t{1} << 22;  ///< weights to sample, about; of a smaller model, all
  bool count_scales = true;                             ///< count scales and exact weights
  double scale_bits = 16;                               ///< bits of each scale that counts
  /// Called when inputs[index] has been read, once for each input that has weights. The search has then copied its
  /// sample, so memory of a mapped file can be released: a system may map 2 MiB for every row that is touched.
  std::function<void(std::size_t)> finished_reading{};
  /// Returns the name of inputs[index] for errors; optional.
  std::function<std::string(std::size_t)> label{};
};

/// EntQuant at a given lambda, with one scale per row.
struct entquant_at {
  scaled_quantizer<row_root<>> operator()(double lambda) const noexcept { return {{lambda}, {}}; }
};

namespace detail {

/// Makes the codes and scales of a matrix at `lambda` times its factors: the factors of its rows, if there are any and
/// the quantiser that quantizer_at(lambda) makes takes them, or else the factor of the whole matrix.
template <code_format Format, class QuantizerAt>
result<void> quantize_at(const QuantizerAt& quantizer_at, double lambda, const lambda_factors& factors,
                         const cpu& backend, const weights_view& weights, std::span<std::uint8_t> codes,
                         std::span<bf16> scales) {
  if constexpr (row_weighted<decltype(quantizer_at(lambda))>) {
    const auto plain = quantizer_at(lambda);
    if (!factors.rows.empty() && plain.layout(weights.rows(), weights.columns()).rows_per_group == 1) {
      return plain.with_row_factors(factors.rows).template quantize<Format>(backend, weights, codes, scales);
    }
  }
  return quantizer_at(lambda_of(lambda, factors.whole)).template quantize<Format>(backend, weights, codes, scales);
}

/// A quantiser at any lambda, whatever its type.
struct quantizer_at_lambda {
  std::function<std::size_t(std::size_t rows, std::size_t columns)> scales;  ///< number of scales
  /// Makes the codes and scales of a sample, at `lambda` times the sample's factors.
  std::function<result<void>(double lambda, const cpu& backend, const sampled_weights& sample,
                             std::span<std::uint8_t> codes, std::span<bf16> scales)>
      quantize;
  /// Called, if set, before quantize() is called for the samples of a model; `lambda` is not yet multiplied by their
  /// factors.
  std::function<result<void>(double lambda, const cpu& backend, std::span<const sampled_weights> samples)> begin{};
  double packed_scale_bits = expected_scale_bits;  ///< approximate bits of a scale in a file

  /// Wraps the quantiser that quantizer_at(lambda) makes, with codes of `Format`. Copies `quantizer_at`.
  template <code_format Format, class QuantizerAt>
  static quantizer_at_lambda of(const QuantizerAt& quantizer_at) {
    return {[=](std::size_t rows, std::size_t columns) { return quantizer_at(0.0).layout(rows, columns).count(); },
            [=](double lambda, const cpu& where, const sampled_weights& sample, std::span<std::uint8_t> codes,
                std::span<bf16> stored) {
              return quantize_at<Format>(quantizer_at, lambda, sample.factors(), where, sample.weights, codes, stored);
            },
            {}};
  }
};

/// Like lambda_for_bits(), for any quantiser.
result<double> find_lambda(const cpu& backend, std::span<const rate_input> inputs, double target_bits,
                           const std::function<double(std::size_t stream, std::uint64_t codes)>& overhead_bits,
                           const rate_options& options, const quantizer_at_lambda& quantizer);

}  // namespace detail

/// Finds one lambda for all `inputs`, each quantised at lambda times its factors, such that
///
///   (sum over streams of entropy of the codes * their number + overhead_bits(stream, codes) + bits of the scales)
///
/// is `target_bits` (above 0) per weight. `overhead_bits` returns the bits that a stream takes besides its entropy:
/// table, index, states, its share of the file's header. `quantizer_at(lambda)` makes the quantiser to use; its rate
/// must fall as lambda grows.
///
/// Large models are measured on a sample: one row of each k neighbours among the rows of a stream's matrices, copied
/// once; no other row is read. The rate of the real codes may then differ, which rate_correction corrects.
///
/// A target that is at least the rate of lambda = 0 (AbsMax) gives 0. Errors: errc::unreachable_target for a target
/// below what scales, overhead and codes that are nearly all zero need; errc::non_finite, as the quantiser reports it,
/// for the rows that are read; errc::invalid_argument for a target out of range, for a stream number that is too large,
/// and for a number of row factors other than the number of rows; errc::out_of_memory.
template <code_format Format, class Overhead = no_overhead, class QuantizerAt = entquant_at>
result<double> lambda_for_bits(const cpu& backend, std::span<const rate_input> inputs, double target_bits,
                               const Overhead& overhead_bits = {}, const rate_options& options = {},
                               const QuantizerAt& quantizer_at = {}) {
  return detail::find_lambda(
      backend, inputs, target_bits,
      [&](std::size_t stream, std::uint64_t codes) { return static_cast<double>(overhead_bits(stream, codes)); },
      options, detail::quantizer_at_lambda::of<Format>(quantizer_at));
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/target_bits-inl.hpp"
#endif
