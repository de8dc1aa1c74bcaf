#pragma once
/// \file
/// Definition of the method of trellis-coded quantisation.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/format/packed_scales.hpp"
#include "ecq/methods/lambda_search.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/tcq_method.hpp"
#include "ecq/methods/tcq_plan.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/target_bits.hpp"
#include "ecq/quantize/trellis_codes.hpp"
#include "ecq/quantize/trellis_indices.hpp"
#include "ecq/quantize/trellis_lanes.hpp"
#include "ecq/quantize/trellis_search.hpp"

namespace ecq::detail {

class prepared_tcq final : public prepared_method {
 public:
  prepared_tcq(const tcq& how, tcq_plan plan)
      : how_(how), plan_(std::move(plan)), costs_(plan_.bits, trellis_rate_weight) {}

  void describe(std::size_t, const weights_view& weights, packed_matrix& described) const override {
    described.set_format<int8>();
    described.layout = how_.layout(weights.rows(), weights.columns());
  }

  result<void> encode(const cpu& backend, std::size_t index, const weights_view& weights,
                      const rate_correction& correction, packed_matrix& described,
                      std::span<std::byte> elements) const override {
    return encode_behind({}, backend, index, weights, correction, described, elements);
  }

  result<void> encode_behind(std::span<const std::byte> before, const cpu& backend, std::size_t index,
                             const weights_view& weights, const rate_correction& correction, packed_matrix& described,
                             std::span<std::byte> elements) const override {
    const std::span codes(reinterpret_cast<std::uint8_t*>(elements.data()), elements.size());
    if (weights.empty()) return {};  // however many rows there are
    ECQ_TRY(steps, trellis_steps(backend, weights, correction.at(plan_.lambda), plan_.factors[index],
                                 how_.has_scaled_rows(weights.columns())));
    const lane_states states = states_behind(plan_.walk, before);
    ECQ_CHECK(find_trellis_codes(backend, plan_.walk, costs_, weights, steps, before.size(), states, codes));
    return set_trellis_scales(backend, weights, codes, steps, described.scales);
  }

  double lambda(const rate_correction& correction) const override { return correction.at(plan_.lambda); }

  stream_options options(const stream_options& given) const override {
    stream_options with_trellis = given;
    with_trellis.trellis = plan_.walk;
    return with_trellis;
  }

 private:
  tcq how_;
  tcq_plan plan_;
  path_costs costs_;
};

ECQ_INLINE std::string tcq_method::settings() const {
  const std::string what = text_of(int8::name, ", ", tcq::name, " of ", 1U << how_.state_bits, " states");
  return how_.target_bits ? text_of(what, ", bits ", *how_.target_bits)
                          : text_of(what, ", lambda ", how_.lambda.value_or(0));
}

ECQ_INLINE result<std::unique_ptr<const prepared_method>> tcq_method::prepare(const cpu& backend,
                                                                              matrix_streams streams,
                                                                              const method_setting& setting) const {
  ECQ_TRY(plan, find_plan(backend, streams, setting));
  return std::unique_ptr<const prepared_method>(std::make_unique<const prepared_tcq>(how_, std::move(plan)));
}

ECQ_INLINE result<tcq_plan> tcq_method::find_plan(const cpu& backend, matrix_streams streams,
                                                  const method_setting& setting) const {
  tcq_plan plan;
  plan.walk = {how_.state_bits, how_.period_bits};
  std::vector<rate_input> inputs;
  std::vector<const named_weights*> matrices;
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    std::uint64_t symbols = 0;
    for (const named_weights& matrix : streams[stream]) {
      symbols += matrix.weights.size();
      ECQ_CHECK(check_lambda_factors(matrix, matrices.size()));
      inputs.push_back({matrix.weights, stream, matrix.lambda_factor, matrix.row_factors});
      matrices.push_back(&matrix);
      plan.factors.push_back(matrix.factors());
    }
    plan.walk.period_bits = (std::min)(plan.walk.period_bits, setting.chunk_bits_of(symbols));
  }
  if (how_.target_bits) {
    ECQ_CHECK(search_lambda(backend, streams, setting, plan));
  } else {
    plan.lambda = how_.lambda.value_or(0);
    ECQ_CHECK(look_at_sample(backend, inputs, matrices, setting, plan));
  }
  return plan;
}

ECQ_INLINE result<void> tcq_method::search_lambda(const cpu& backend, matrix_streams streams,
                                                  const method_setting& setting, tcq_plan& plan) const {
  std::map<double, index_bits> tried;  // by lambda; the search returns one of those
  std::optional<path_costs> costs;
  quantizer_at_lambda quantizer;
  quantizer.scales = [this](std::size_t rows, std::size_t columns) { return how_.layout(rows, columns).count(); };
  quantizer.packed_scale_bits = expected_gain_bits;
  quantizer.begin = [&](double lambda, const cpu& where, std::span<const sampled_weights> samples) -> result<void> {
    ECQ_TRY(bits, find_index_bits(where, plan.walk, samples, lambda, how_));
    tried[lambda] = bits;
    costs.emplace(bits, trellis_rate_weight);
    return {};
  };
  quantizer.quantize = [&](double lambda, const cpu& where, const sampled_weights& sample,
                           std::span<std::uint8_t> codes, std::span<bf16>) -> result<void> {
    const weights_view& weights = sample.weights;
    ECQ_TRY(steps, trellis_steps(where, weights, lambda, sample.factors(), how_.has_scaled_rows(weights.columns())));
    ECQ_CHECK(find_trellis_codes(where, plan.walk, *costs, weights, steps, 0, {}, codes));
    std::transform(codes.begin(), codes.end(), codes.begin(), trellis::index);
    return {};
  };
  ECQ_TRY(found, find_lambdas(backend, streams, *how_.target_bits, false, setting, quantizer));
  if (!found.empty()) plan.lambda = found.front();
  if (const auto bits = tried.find(plan.lambda); bits != tried.end()) plan.bits = bits->second;
  return {};
}

ECQ_INLINE result<void> tcq_method::look_at_sample(const cpu& backend, std::span<const rate_input> inputs,
                                                   std::span<const named_weights* const> matrices,
                                                   const method_setting& setting, tcq_plan& plan) const {
  constexpr std::uint64_t sample_limit = std::uint64_t{1} << 20;
  return or_out_of_memory("a sample of the weights", [&]() -> result<void> {
    auto bits =
        find_index_bits(backend, plan.walk, sample_model(inputs, sample_limit, setting.finished), plan.lambda, how_);
    if (!bits) return name_non_finite(backend, matrices, bits.error());
    plan.bits = *bits;
    return {};
  });
}

}  // namespace ecq::detail
