#pragma once
/// \file
/// Text that a model continues.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/result.hpp"
#include "forward.hpp"
#include "kv_cache.hpp"
#include "sampling.hpp"

namespace llama {

/// How text is continued.
struct generation_options {
  std::size_t tokens = 64;  ///< at most
  double temperature = 0;   ///< 0: greedily
  std::uint64_t seed = 0;
};

/// What came of it.
struct generation {
  std::vector<std::uint32_t> tokens{};
  std::string_view stop{};    ///< "tokens" (as many as asked for), "end" (an end token, left out) or "context" (full)
  double prompt_seconds = 0;  ///< for the prompt, up to the first new token
  double seconds = 0;         ///< for the other tokens
  std::size_t cache_bytes = 0;
};

namespace detail {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Tokens of a prompt or a window that are computed at a time; a few suffice to read weights seldom.
inline constexpr std::size_t tokens_per_pass = 256;
static_assert(tokens_per_pass <= forward_pass::most_tokens);

}  // namespace detail

/// Continues `prompt`. Calls `progress(tokens so far)` after each token, which is the last one. Errors:
/// ecq::errc::invalid_argument for a prompt without tokens or longer than the context, those of forward_pass::run and
/// check_logits.
inline ecq::result<generation> generate(forward_pass& pass, const model_config& config,
                                        std::span<const std::uint32_t> prompt, const generation_options& how,
                                        const std::function<void(std::span<const std::uint32_t>)>& progress = {}) {
  if (prompt.empty()) return ecq::error(ecq::errc::invalid_argument, "prompt: no tokens");
  if (prompt.size() > config.positions) {
    return ecq::error(ecq::errc::invalid_argument, "prompt: ", prompt.size(), " tokens, the context has ",
                      config.positions);
  }
  kv_cache cache(config);
  sampler choose(how.temperature, how.seed);
  generation made{.stop = "tokens"};
  auto start = std::chrono::steady_clock::now();
  for (std::span<const std::uint32_t> rest = prompt; made.tokens.size() < how.tokens;) {
    if (cache.length() == config.positions) {
      made.stop = "context";
      break;
    }
    const auto now = rest.first((std::min)(rest.size(), detail::tokens_per_pass));
    ECQ_TRY(states, pass.run(now, cache));
    rest = rest.subspan(now.size());
    if (!rest.empty()) continue;
    ECQ_TRY(logits, pass.logits(states.row_range(states.rows() - 1, 1)));
    ECQ_TRY(token, choose.next({logits.data(), logits.columns()}));
    if (made.tokens.empty()) {
      made.prompt_seconds = detail::seconds_since(start);
      start = std::chrono::steady_clock::now();
    }
    if (std::ranges::find(config.end_tokens, token) != config.end_tokens.end()) {
      made.stop = "end";
      break;
    }
    made.tokens.push_back(token);
    rest = std::span(made.tokens).last(1);
    if (progress) progress(made.tokens);
  }
  made.seconds = detail::seconds_since(start);
  made.cache_bytes = cache.size_bytes();
  return made;
}

}  // namespace llama
