#pragma once
/// \file
/// Definition of find_lambda().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq::detail {

/// Bits per weight of a model as a function of lambda.
class rate_of_model {
 public:
  rate_of_model(const cpu& backend, std::span<const rate_input> inputs, const rate_options& options,
                const quantizer_at_lambda& quantizer)
      : backend_(backend), quantizer_(quantizer), label_(options.label) {
    for (const rate_input& input : inputs) {
      if (input.weights.empty()) continue;
      weights_ += input.weights.size();
      if (input.stream >= codes_.size()) codes_.resize(input.stream + 1);
      codes_[input.stream] += input.weights.size();
      if (options.count_scales) {
        fixed_bits_ +=
            options.scale_bits * static_cast<double>(quantizer.scales(input.weights.rows(), input.weights.columns()));
        fixed_bits_ += 8.0 * static_cast<double>(exact_weight_bytes * input.weights.exact().size());
      }
    }
    samples_ = sample_model(inputs, options.sample_limit, options.finished_reading);
  }

  void add_overhead(const std::function<double(std::size_t, std::uint64_t)>& overhead_bits) {
    for (std::size_t stream = 0; stream < codes_.size(); ++stream) {
      if (codes_[stream] != 0) fixed_bits_ += overhead_bits(stream, codes_[stream]);
    }
  }

  std::uint64_t weights() const noexcept { return weights_; }
  double fixed_bits_per_weight() const noexcept { return fixed_bits_ / static_cast<double>(weights_); }

  result<double> at(double lambda) const {
    std::vector<histogram> streams(codes_.size());
    std::vector<std::uint8_t> codes;
    std::vector<bf16> scales;
    if (quantizer_.begin) ECQ_CHECK(quantizer_.begin(lambda, backend_, samples_));
    for (const sampled_weights& part : samples_) {
      codes.resize(part.weights.size());
      scales.resize(quantizer_.scales(part.weights.rows(), part.weights.columns()));
      if (auto made = quantizer_.quantize(lambda, backend_, part, codes, scales); !made) {
        return label_ ? std::move(made).error().within(label_(part.input)) : std::move(made).error();
      }
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
  const cpu& backend_;
  const quantizer_at_lambda& quantizer_;
  const std::function<std::string(std::size_t)>& label_;
  std::vector<sampled_weights> samples_;
  std::vector<std::uint64_t> codes_;  ///< by stream
  std::uint64_t weights_ = 0;
  double fixed_bits_ = 0;
};

ECQ_INLINE result<double> find_lambda(const cpu& backend, std::span<const rate_input> inputs, double target_bits,
                                      const std::function<double(std::size_t, std::uint64_t)>& overhead_bits,
                                      const rate_options& options, const quantizer_at_lambda& quantizer) {
  if (!(target_bits > 0.0) || !(target_bits < 64.0)) {
    return error(errc::invalid_argument, "target is ", target_bits, " bits per weight, not between 0 and 64");
  }
  for (const rate_input& input : inputs) {
    if (input.stream >= inputs.size()) {
      return error(errc::invalid_argument, "stream ", input.stream, " does not exist with ", inputs.size(),
                   " matrices");
    }
    if (!input.row_factors.empty() && input.row_factors.size() != input.weights.rows()) {
      return error(errc::invalid_argument, input.row_factors.size(), " row factors for ", input.weights.rows(),
                   " rows");
    }
  }
  return or_out_of_memory("a sample of the weights", [&]() -> result<double> {
    rate_of_model model(backend, inputs, options, quantizer);
    if (model.weights() == 0) return 0.0;
    model.add_overhead(overhead_bits);
    lambda_solver solver(target_bits, model.fixed_bits_per_weight());
    while (!solver.finished()) {
      ECQ_TRY(rate, model.at(solver.lambda()));
      solver.take(rate);
    }
    if (!solver.unreachable()) return solver.lambda();
    return error(errc::unreachable_target, target_bits,
                 " bits per weight were requested, but scales and stream overhead take ", model.fixed_bits_per_weight(),
                 ", and ", solver.last_rate(), " is the least that these weights reach");
  });
}

}  // namespace ecq::detail
