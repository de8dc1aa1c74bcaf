// Quantises each matrix alone and measures how that changes the predictions.

#include "calibration.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "dot.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "ecq/quantize/entquant.hpp"
#include "forward.hpp"
#include "kv_cache.hpp"
#include "linear_layer.hpp"
#include "model.hpp"
#include "prediction.hpp"
#include "sampling.hpp"
#include "thread_pool.hpp"

namespace llama {

namespace {

/// A matrix quantised by EntQuant and decoded to BF16.
class quantized_matrix {
 public:
  /// Quantises `weights`. Errors: those of ecq::entquant, such as ecq::errc::non_finite.
  static ecq::result<quantized_matrix> of(const ecq::cpu& backend, ecq::matrix_view<const ecq::bf16> weights,
                                          double lambda) {
    quantized_matrix made;
    std::vector<std::uint8_t> codes(weights.size());
    std::vector<ecq::bf16> scales(weights.rows());
    const ecq::entquant quantizer{.lambda = lambda};
    ECQ_CHECK(quantizer.quantize<ecq::fp8_e4m3>(backend, weights, codes, scales));
    made.weights_.resize(weights.size());
    double error = 0, all = 0;
    for (std::size_t row = 0; row < weights.rows(); ++row) {
      for (std::size_t column = 0; column < weights.columns(); ++column) {
        const std::size_t at = row * weights.columns() + column;
        made.weights_[at] =
            ecq::nearest_finite<ecq::bf16>(ecq::fp8_e4m3::decode(codes[at]) * static_cast<float>(scales[row]));
        const double weight = static_cast<double>(value_of(weights(row, column)));
        error += std::pow(static_cast<double>(value_of(made.weights_[at])) - weight, 2);
        all += weight * weight;
      }
    }
    made.relative_error_ = all == 0 ? 0 : error / all;
    made.layer_ = std::make_unique<dense_layer>(
        ecq::matrix_view<const ecq::bf16>(made.weights_.data(), weights.rows(), weights.columns()));
    return made;
  }

  const linear_layer& layer() const noexcept { return *layer_; }
  double relative_error() const noexcept { return relative_error_; }
  std::size_t size() const noexcept { return weights_.size(); }

 private:
  std::vector<ecq::bf16> weights_;
  std::unique_ptr<const dense_layer> layer_;
  double relative_error_ = 0;
};

/// Returns the logits of all tokens of a text, valid until the pass computes others.
ecq::result<ecq::matrix_view<const float>> logits_of(forward_pass& pass, kv_cache& cache,
                                                     std::span<const std::uint32_t> text) {
  cache.clear();
  ECQ_TRY(states, pass.run(text, cache));
  ECQ_TRY(logits, pass.logits(states));
  ECQ_CHECK(check_logits({logits.data(), logits.size()}));
  return logits;
}

/// Sets the sensitivities from divergences and errors. Their geometric mean is 1, and they are limited to 1e-6 to 1e6.
/// A matrix without influence gets the least, one that was not `used` the mean.
void set_sensitivities(std::span<matrix_sensitivity> matrices, std::span<const std::size_t> weights,
                       const std::vector<bool>& used) {
  double logs = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    matrix_sensitivity& one = matrices[i];
    const double change = one.relative_error * static_cast<double>(weights[i]);
    one.sensitivity = change > 0 ? one.divergence / change : 0;
    if (!(one.sensitivity > 0)) continue;
    logs += std::log(one.sensitivity);
    ++count;
  }
  const double mean = count == 0 ? 1 : std::exp(logs / static_cast<double>(count));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    matrices[i].sensitivity = used[i] ? std::clamp(matrices[i].sensitivity / mean, 1e-6, 1e6) : 1;
  }
}

}  // namespace

ecq::result<std::vector<matrix_sensitivity>> calibrate(
    const model& from, thread_pool& pool, std::span<const std::uint32_t> prompt, const calibration_options& how,
    const std::function<void(std::string_view stage, std::size_t done, std::size_t total)>& progress) {
  const model_config& config = from.config();
  if (!(how.lambda >= 0)) {
    return ecq::error(ecq::errc::invalid_argument, "lambda is ", how.lambda, ", not a number of at least 0");
  }
  forward_pass pass(from, pool);
  ECQ_TRY(texts, own_texts(pass, config, prompt, how.texts, [&](std::size_t done) {
            if (progress) progress("writing texts", done, how.texts.tokens);
          }));
  std::vector<matrix_sensitivity> measured;
  std::vector<std::size_t> weights;
  const std::size_t of_layer = config.mixture.matrices();
  std::vector<bool> used(config.layers * of_layer);
  for (std::size_t at = 0; at < used.size(); ++at) used[at] = at % of_layer < attention_projections;
  const forward_pass::down_observer note_use = [&](std::size_t layer, std::size_t expert, const auto&, const auto&) {
    for (const projection which : {projection::gate, projection::up, projection::down}) {
      used[layer * of_layer + matrix_index(which, expert)] = true;
    }
  };
  kv_cache cache(config);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    ECQ_TRY(matrices, from.layers().layer(layer));
    std::vector<quantized_matrix> quantized;
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      const auto* const matrix = dynamic_cast<const dense_layer*>(matrices[index]);
      if (matrix == nullptr) return ecq::error(ecq::errc::invalid_argument, "calibration needs mode dense");
      auto made = quantized_matrix::of(pool.backend(), matrix->weights(), how.lambda);
      if (!made) return std::move(made).error().within("tensor '", tensor_name(config.mixture, layer, index), "'");
      weights.push_back(made->size());
      measured.push_back({.layer = layer, .matrix = index, .relative_error = made->relative_error()});
      quantized.push_back(std::move(*made));
    }
    const std::span now = std::span(measured).last(matrices.size());
    std::size_t predictions = 0;
    for (std::size_t text = 0; text < texts.size(); ++text) {
      if (progress) progress("measuring", layer * texts.size() + text, config.layers * texts.size());
      pass.observe_down(note_use);  // of the original: with a replaced matrix, tokens may choose other experts
      ECQ_TRY(logits, logits_of(pass, cache, texts[text]));
      pass.observe_down({});
      const std::vector<float> expected(logits.data(), logits.data() + logits.size());
      std::vector<double> divergences(logits.rows());
      for (std::size_t index = 0; index < matrices.size(); ++index) {
        pass.replace(layer, index, &quantized[index].layer());
        auto changed = logits_of(pass, cache, texts[text]);
        pass.replace(layer, index, nullptr);
        if (!changed) return std::move(changed).error();
        constexpr std::size_t work_of_exponential = 32;
        pool.run(changed->rows(), work_of_exponential * changed->size(), [&](std::size_t row, std::size_t) {
          divergences[row] = divergence_of({expected.data() + row * config.vocabulary, config.vocabulary},
                                           {&(*changed)(row, 0), config.vocabulary});
        });
        for (const double divergence : divergences) now[index].divergence += divergence;
      }
      predictions += divergences.size();
    }
    for (matrix_sensitivity& one : now) one.divergence /= static_cast<double>(predictions);
  }
  set_sensitivities(measured, weights, used);
  return measured;
}

}  // namespace llama
