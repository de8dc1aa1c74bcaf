// Lets a model continue a text, token by token.

#include "generation.hpp"

#include <algorithm>
#include <chrono>

#include "forward.hpp"
#include "kv_cache.hpp"
#include "model_config.hpp"
#include "sampling.hpp"
#include "seconds_since.hpp"

namespace llama {

static_assert(detail::tokens_per_pass <= forward_pass::most_tokens);

ecq::result<generation> generate(forward_pass& pass, const model_config& config, std::span<const std::uint32_t> prompt,
                                 const generation_options& how,
                                 const std::function<void(std::span<const std::uint32_t>)>& progress) {
  if (prompt.empty()) return ecq::error(ecq::errc::invalid_argument, "prompt has no tokens");
  if (prompt.size() > config.positions) {
    return ecq::error(ecq::errc::invalid_argument, "prompt has ", prompt.size(), " tokens, but the context has only ",
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
