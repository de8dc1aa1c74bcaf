// Compares two models: their weights layer by layer, their predictions window by window.

#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/analysis/unbiased_error.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "layer_source.hpp"
#include "model.hpp"
#include "model_config.hpp"
#include "prediction.hpp"
#include "seconds_since.hpp"
#include "stored_tensors.hpp"
#include "thread_pool.hpp"

namespace llama {

ecq::result<void> check_same_shape(const model_config& original, const model_config& other) {
  struct size {
    const char* name;
    std::size_t of_original, of_other;
  };
  for (const auto& [name, of_original, of_other] :
       {size{"vocab_size", original.vocabulary, other.vocabulary}, size{"hidden_size", original.hidden, other.hidden},
        size{"intermediate_size", original.intermediate, other.intermediate},
        size{"num_hidden_layers", original.layers, other.layers},
        size{"num_attention_heads", original.heads, other.heads},
        size{"num_key_value_heads", original.key_heads, other.key_heads},
        size{"head_dim", original.head_width, other.head_width},
        size{"num_local_experts", original.mixture.experts, other.mixture.experts},
        size{"num_experts_per_tok", original.mixture.chosen, other.mixture.chosen}}) {
    if (of_original == of_other) continue;
    return ecq::error(ecq::errc::invalid_argument, name, " is ", of_other, ", but that of the original is ",
                      of_original);
  }
  return {};
}

ecq::result<prediction_difference> compare_predictions(window_reader original, window_reader other, thread_pool& pool,
                                                       const model_config& config,
                                                       std::span<const std::uint32_t> tokens, const window_options& how,
                                                       const std::function<void(std::size_t, std::size_t)>& progress) {
  ECQ_TRY(windows, text_windows::of(config, tokens, how));
  if (other.vocabulary() != config.vocabulary) {
    return ecq::error(ecq::errc::invalid_argument, "vocabularies of ", other.vocabulary(), " and ", config.vocabulary,
                      " tokens differ");
  }
  std::array<window_reader, 2> readers{std::move(original), std::move(other)};
  struct costs {
    double original_loss = 0, loss = 0, divergence = 0;
  };
  std::vector<costs> each;
  costs all, of_window;
  const auto add = [&](std::span<const ecq::matrix_view<const float>> logits, std::span<const std::uint32_t> targets) {
    each.resize(targets.size());
    constexpr std::size_t work_of_exponentials = 80;
    pool.run(each.size(), work_of_exponentials * logits[0].size(), [&](std::size_t row, std::size_t) {
      const std::span before(&logits[0](row, 0), config.vocabulary), after(&logits[1](row, 0), config.vocabulary);
      each[row] = {loss_of(before, targets[row]), loss_of(after, targets[row]), divergence_of(before, after)};
    });
    for (const costs& one : each) {
      all.original_loss += one.original_loss;
      all.loss += one.loss;
      of_window.divergence += one.divergence;
    }
  };
  prediction_difference measured{.windows = windows.size(), .predictions = windows.predictions()};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t window = 0; window < windows.size(); ++window) {
    if (progress) progress(window, windows.size());
    of_window = {};
    auto outcome = predict_window(readers, windows[window], add);
    if (!outcome) return std::move(outcome).error().within("window ", window);
    all.divergence += of_window.divergence;
    measured.largest_divergence =
        (std::max)(measured.largest_divergence, of_window.divergence / static_cast<double>(how.window));
  }
  measured.seconds = detail::seconds_since(start);
  const auto count = static_cast<double>(measured.predictions);
  measured.original_loss = all.original_loss / count;
  measured.loss = all.loss / count;
  measured.divergence = all.divergence / count;
  return measured;
}

ecq::result<ecq::weight_error> compare_layers(const ecq::cpu& backend, const model& original, const model& other,
                                              const std::function<void(std::size_t, std::size_t)>& progress) {
  struct decoded_layer {
    tensor_decoder<float> decoder{};
    std::vector<float> weights{};
    std::size_t size = 0;

    ecq::result<void> add(const stored_tensor& tensor) {
      ECQ_CHECK(decoder.add(tensor, size));
      size += extents_of(tensor).size();
      return {};
    }
    ecq::result<void> decode(const ecq::cpu& on) {
      weights.resize(size);
      return decoder.decode(on, weights.data());
    }
  };
  ECQ_CHECK(check_same_shape(original.config(), other.config()));
  const std::size_t layers = original.config().layers;
  ecq::weight_error total;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (progress) progress(layer, layers);
    decoded_layer before, after;
    std::vector<extents> sizes;
    for (std::size_t index = 0; index < original.config().mixture.matrices(); ++index) {
      const stored_tensor& found = *original.tensors().find(tensor_name(original.config().mixture, layer, index));
      sizes.push_back(extents_of(found));
      ECQ_CHECK(before.add(found));
      ECQ_CHECK(after.add(*other.tensors().find(tensor_name(other.config().mixture, layer, index))));
    }
    ECQ_CHECK(before.decode(backend));
    ECQ_CHECK(after.decode(backend));
    std::size_t at = 0;
    for (const extents& size : sizes) {
      const auto matrix = [&](const decoded_layer& of) {
        return ecq::matrix_view<const float>(of.weights.data() + at, size.rows, size.columns);
      };
      ECQ_TRY(error, ecq::measure_unbiased_error(backend, matrix(before), matrix(after)));
      total += error;
      at += size.size();
    }
  }
  return total;
}

}  // namespace llama
