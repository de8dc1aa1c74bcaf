// The mean loss over the windows of a text.

#include "perplexity.hpp"

#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "model_config.hpp"
#include "prediction.hpp"
#include "seconds_since.hpp"
#include "text_windows.hpp"
#include "thread_pool.hpp"

namespace llama {

double perplexity_result::perplexity() const noexcept { return std::exp(loss); }

ecq::result<perplexity_result> measure_perplexity(forward_pass& pass, thread_pool& pool, const model_config& config,
                                                  std::span<const std::uint32_t> tokens, const window_options& how,
                                                  const std::function<void(std::size_t, std::size_t)>& progress) {
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
