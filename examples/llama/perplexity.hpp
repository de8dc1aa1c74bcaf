#pragma once
/// \file
/// How well a model predicts text.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/mapped_file.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "kv_cache.hpp"
#include "sampling.hpp"
#include "thread_pool.hpp"

namespace llama {

/// Which tokens are predicted: text is cut into windows of `window` + 1 tokens, one after another, and all but the
/// first of each are predicted from those before them in the window.
struct perplexity_options {
  std::size_t window = 256;
  std::size_t windows = 0;  ///< at most; 0: as many as the text has
};

/// What the predictions cost.
struct perplexity_result {
  double loss = 0;  ///< mean of -log(probability), nats a token
  std::size_t windows = 0;
  std::size_t predictions = 0;
  double seconds = 0;

  double perplexity() const noexcept { return std::exp(loss); }
};

/// Reads tokens from a file of little-endian 16-bit numbers. Errors name the file: ecq::errc::truncated for an odd
/// number of bytes.
inline ecq::result<std::vector<std::uint32_t>> read_tokens_u16(const std::filesystem::path& path) {
  ECQ_TRY(file, ecq::mapped_file::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() % 2 != 0) {
    return ecq::error(ecq::errc::truncated, "'", path.string(), "': ", bytes.size(),
                      " bytes, not a whole number of 16-bit tokens");
  }
  std::vector<std::uint32_t> tokens;
  tokens.reserve(bytes.size() / 2);
  for (std::size_t at = 0; at < bytes.size(); at += 2) tokens.push_back(ecq::load_le<std::uint16_t>(&bytes[at]));
  return tokens;
}

/// -log(probability) of `token` by softmax of `logits`, which are finite.
inline double loss_of(std::span<const float> logits, std::uint32_t token) noexcept {
  const double highest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest - static_cast<double>(logits[token]);
}

namespace detail {

/// Computes the losses of `targets`, each by the state in its row, and adds them to `sum` in order.
inline ecq::result<void> add_losses(forward_pass& pass, thread_pool& pool, ecq::matrix_view<const float> states,
                                    std::span<const std::uint32_t> targets, std::size_t vocabulary, double& sum) {
  constexpr std::size_t logits_at_a_time = 1 << 22;
  const std::size_t step = (std::max)(std::size_t{1}, logits_at_a_time / vocabulary);
  std::vector<double> losses;
  for (std::size_t from = 0; from < targets.size(); from += step) {
    const std::size_t count = (std::min)(step, targets.size() - from);
    ECQ_TRY(logits, pass.logits(states.row_range(from, count)));
    ECQ_CHECK(check_logits({logits.data(), logits.size()}));
    losses.resize(count);
    constexpr std::size_t work_of_exponential = 16;
    pool.run(count, work_of_exponential * logits.size(), [&, rows = logits](std::size_t row, std::size_t) {
      losses[row] = loss_of({&rows(row, 0), vocabulary}, targets[from + row]);
    });
    for (const double loss : losses) sum += loss;
  }
  return {};
}

}  // namespace detail

/// Measures the mean loss over the windows of `tokens`. Calls `progress(windows done, of all)` before each. Errors:
/// ecq::errc::invalid_argument for a window longer than the context, fewer tokens than one window takes, and tokens
/// beyond the vocabulary; those of forward_pass::run and check_logits name the window.
inline ecq::result<perplexity_result> measure_perplexity(
    forward_pass& pass, thread_pool& pool, const model_config& config, std::span<const std::uint32_t> tokens,
    const perplexity_options& how, const std::function<void(std::size_t, std::size_t)>& progress = {}) {
  if (how.window == 0 || how.window > config.positions) {
    return ecq::error(ecq::errc::invalid_argument, "windows of ", how.window, " predictions, not 1 to ",
                      config.positions, ", the context of the model");
  }
  const std::size_t all = tokens.size() / (how.window + 1);
  const std::size_t windows = how.windows == 0 ? all : (std::min)(all, how.windows);
  if (windows == 0) {
    return ecq::error(ecq::errc::invalid_argument, "text of ", tokens.size(), " tokens, one window takes ",
                      how.window + 1);
  }
  const auto odd = std::ranges::find_if(tokens, [&](std::uint32_t token) { return token >= config.vocabulary; });
  if (odd != tokens.end()) {
    return ecq::error(ecq::errc::invalid_argument, "token ", *odd, " at position ", std::distance(tokens.begin(), odd),
                      " of the text, the vocabulary has ", config.vocabulary);
  }
  kv_cache cache(config);
  perplexity_result measured{.windows = windows, .predictions = windows * how.window};
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  const auto measure = [&](std::span<const std::uint32_t> window) -> ecq::result<void> {
    cache.clear();
    for (std::size_t from = 0; from < how.window; from += detail::tokens_per_pass) {
      const std::size_t count = (std::min)(detail::tokens_per_pass, how.window - from);
      ECQ_TRY(states, pass.run(window.subspan(from, count), cache));
      ECQ_CHECK(detail::add_losses(pass, pool, states, window.subspan(from + 1, count), config.vocabulary, sum));
    }
    return {};
  };
  for (std::size_t window = 0; window < windows; ++window) {
    if (progress) progress(window, windows);
    auto outcome = measure(tokens.subspan(window * (how.window + 1), how.window + 1));
    if (!outcome) return std::move(outcome).error().within("window ", window);
  }
  measured.seconds = detail::seconds_since(start);
  measured.loss = sum / static_cast<double>(measured.predictions);
  return measured;
}

}  // namespace llama
