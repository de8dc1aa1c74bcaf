#pragma once
/// \file
/// How well a model predicts text.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "prediction.hpp"
#include "text_windows.hpp"
#include "thread_pool.hpp"

namespace llama {

/// What the predictions cost.
struct perplexity_result {
  double loss = 0;  ///< mean of -log(probability), nats a token
  std::size_t windows = 0;
  std::size_t predictions = 0;
  double seconds = 0;

  double perplexity() const noexcept { return std::exp(loss); }
};

/// Measures the mean loss over the windows of `tokens`. Calls `progress(windows done, of all)` before each. Errors:
/// those of text_windows::of; those of window_reader name the window.
inline ecq::result<perplexity_result> measure_perplexity(
    forward_pass& pass, thread_pool& pool, const model_config& config, std::span<const std::uint32_t> tokens,
    const window_options& how, const std::function<void(std::size_t, std::size_t)>& progress = {}) {
  ECQ_TRY(windows, text_windows::of(config, tokens, how));
  window_reader reader(pass, config);
  perplexity_result measured{.windows = windows.size(), .predictions = windows.predictions()};
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  std::vector<double> losses;
  const auto add = [&](std::span<const ecq::matrix_view<const float>> logits, std::span<const std::uint32_t> targets) {
    losses.resize(targets.size());
    constexpr std::size_t work_of_exponential = 16;
    pool.run(losses.size(), work_of_exponential * logits[0].size(), [&](std::size_t row, std::size_t) {
      losses[row] = loss_of({&logits[0](row, 0), config.vocabulary}, targets[row]);
    });
    for (const double loss : losses) sum += loss;
  };
  for (std::size_t window = 0; window < windows.size(); ++window) {
    if (progress) progress(window, windows.size());
    auto outcome = predict_window({&reader, 1}, windows[window], add);
    if (!outcome) return std::move(outcome).error().within("window ", window);
  }
  measured.seconds = detail::seconds_since(start);
  measured.loss = sum / static_cast<double>(measured.predictions);
  return measured;
}

}  // namespace llama
