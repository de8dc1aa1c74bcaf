#pragma once
/// \file
/// The lambda that gives a model the bits per weight asked for.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/row_root.hpp"
#include "ecq/quantize/row_sample.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"

namespace ecq {

/// A matrix of the model and the stream its codes go into; those of one stream share one frequency table.
struct rate_input {
  weights_view weights;
  std::size_t stream = 0;  ///< below the number of inputs
};

/// Nothing but codes: the rate is their entropy (and the scales, if they count).
struct no_overhead {
  double operator()(std::size_t, std::uint64_t) const noexcept { return 0; }
};

/// How the rate of a model is measured.
struct rate_options {
  std::uint64_t sample_limit = std::uint64_t{1} << 22;  ///< weights that are looked at, about; all of a smaller model
  bool count_scales = true;                             ///< 16 bits a scale
  /// Called when inputs[index] has been read, once for each input: what is looked at is copied first, so that memory of
  /// a mapped file can be given back. A system may map 2 MiB for every row that is touched.
  std::function<void(std::size_t)> finished_reading{};
};

/// EntQuant at a lambda with one scale a row.
struct entquant_at {
  scaled_quantizer<row_root<>> operator()(double lambda) const noexcept { return {{lambda}, {}}; }
};

/// Finds one lambda for all `inputs` such that
///
///   (sum over streams of entropy of the codes * their number + overhead_bits(stream, codes) + bits of the scales)
///
/// is `target_bits` (above 0) a weight. `overhead_bits` says what a stream costs beside its entropy: table, index,
/// states, its share of the file's header. `quantizer_at(lambda)` makes the quantiser to use; its rate must fall as
/// lambda grows.
///
/// Large models are measured on a sample: a row of each k neighbours of every matrix, copied once; no other row is
/// read. The rate of the real codes may then differ; rate_correction takes it from there.
///
/// At least the rate of lambda = 0 (AbsMax): gives 0. errc::unreachable_target below what codes that are nearly all
/// zero, scales and overhead need; errc::non_finite as the quantiser reports it, for the rows that are read.
template <code_format Format, class Overhead = no_overhead, class QuantizerAt = entquant_at>
result<double> lambda_for_bits(const cpu& backend, std::span<const rate_input> inputs, double target_bits,
                               const Overhead& overhead_bits = {}, const rate_options& options = {},
                               const QuantizerAt& quantizer_at = {});

namespace detail {

/// Bits a weight of a model as a function of lambda.
template <class Format, class QuantizerAt>
class rate_of_model {
 public:
  rate_of_model(const cpu& backend, std::span<const rate_input> inputs, const rate_options& options,
                const QuantizerAt& quantizer_at)
      : backend_(backend), quantizer_at_(quantizer_at) {
    for (const rate_input& input : inputs) weights_ += input.weights.size();
    const auto quantizer = quantizer_at(0.0);
    for (std::size_t index = 0; index < inputs.size(); ++index) {
      const rate_input& input = inputs[index];
      if (!input.weights.empty()) samples_.push_back(sample_of(input, weights_, options.sample_limit));
      if (options.finished_reading) options.finished_reading(index);
      if (input.weights.empty()) continue;
      const std::size_t stream = input.stream;
      if (stream >= codes_.size()) codes_.resize(stream + 1);
      codes_[stream] += input.weights.size();
      if (options.count_scales) {
        fixed_bits_ +=
            16.0 * static_cast<double>(quantizer.layout(input.weights.rows(), input.weights.columns()).count());
      }
    }
  }

  template <class Overhead>
  void add_overhead(const Overhead& overhead_bits) {
    for (std::size_t stream = 0; stream < codes_.size(); ++stream) {
      if (codes_[stream] != 0) fixed_bits_ += static_cast<double>(overhead_bits(stream, codes_[stream]));
    }
  }

  std::uint64_t weights() const noexcept { return weights_; }
  double fixed_bits_per_weight() const noexcept { return fixed_bits_ / static_cast<double>(weights_); }

  result<double> at(double lambda) const {
    const auto quantizer = quantizer_at_(lambda);
    std::vector<histogram> streams(codes_.size());
    std::vector<std::uint8_t> codes;
    std::vector<bf16> scales;
    for (const sample& part : samples_) {
      codes.resize(part.weights.size());
      scales.resize(quantizer.layout(part.weights.rows(), part.weights.columns()).count());
      ECQ_CHECK(quantizer.template quantize<Format>(backend_, part.weights, codes, scales));
      ECQ_TRY(counts, count_codes(backend_, codes));
      for (std::size_t value = 0; value < 256; ++value) {
        streams[part.stream].counts[value] += count_of_matrix(counts.counts[value], part.stands_for);
      }
    }
    double bits = fixed_bits_;
    for (std::size_t stream = 0; stream < codes_.size(); ++stream) {
      bits += entropy_of(streams[stream]) * static_cast<double>(codes_[stream]);
    }
    return bits / static_cast<double>(weights_);
  }

 private:
  struct sample {
    std::vector<std::byte> bytes;  ///< of `weights`, row-major
    weights_view weights;
    std::size_t stream = 0;
    double stands_for = 1;  ///< weights of the matrix a weight of the sample
  };

  static sample sample_of(const rate_input& input, std::uint64_t weights, std::uint64_t limit) {
    const weights_view& all = input.weights;
    const auto looked_at = row_sample::of(all.rows(), all.columns(), weights, limit);
    const auto rows = static_cast<std::size_t>(looked_at.rows);
    const auto columns = static_cast<std::size_t>(looked_at.columns);
    const std::size_t element = size_of(all.type());
    sample part{std::vector<std::byte>(rows * columns * element), {}, input.stream, looked_at.stands_for};
    std::byte* to = part.bytes.data();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::byte* from = all.data() + static_cast<std::ptrdiff_t>(sampled_row(row, looked_at.step, all.rows())) *
                                               all.row_stride() * static_cast<std::ptrdiff_t>(element);
      for (std::size_t column = 0; column < columns; ++column, to += element) {
        std::memcpy(
            to, from + static_cast<std::ptrdiff_t>(column) * all.column_stride() * static_cast<std::ptrdiff_t>(element),
            element);
      }
    }
    part.weights = weights_view(all.type(), part.bytes.data(), rows, columns, static_cast<std::ptrdiff_t>(columns));
    return part;
  }

  const cpu& backend_;
  const QuantizerAt& quantizer_at_;
  std::vector<sample> samples_;
  std::vector<std::uint64_t> codes_;  ///< by stream
  std::uint64_t weights_ = 0;
  double fixed_bits_ = 0;
};

}  // namespace detail

template <code_format Format, class Overhead, class QuantizerAt>
result<double> lambda_for_bits(const cpu& backend, std::span<const rate_input> inputs, double target_bits,
                               const Overhead& overhead_bits, const rate_options& options,
                               const QuantizerAt& quantizer_at) {
  if (!(target_bits > 0.0) || !(target_bits < 64.0)) {
    return error(errc::invalid_argument, std::to_string(target_bits) + " bits a weight");
  }
  for (const rate_input& input : inputs) {
    if (input.stream >= inputs.size()) {
      return error(errc::invalid_argument,
                   "stream " + std::to_string(input.stream) + " among " + std::to_string(inputs.size()) + " matrices");
    }
  }
  try {
    detail::rate_of_model<Format, QuantizerAt> model(backend, inputs, options, quantizer_at);
    if (model.weights() == 0) return 0.0;
    model.add_overhead(overhead_bits);
    detail::lambda_solver solver(target_bits, model.fixed_bits_per_weight());
    while (!solver.finished()) {
      ECQ_TRY(rate, model.at(solver.lambda()));
      solver.take(rate);
    }
    if (!solver.unreachable()) return solver.lambda();
    return error(errc::unreachable_target, std::to_string(target_bits) + " bits a weight, where " +
                                               std::to_string(solver.last_rate()) +
                                               " is the least that these weights reach");
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "allocation failed");
  }
}

}  // namespace ecq
