// Lets a model write texts, each with a seed of its own.

#include "own_texts.hpp"

#include <algorithm>

#include "forward.hpp"
#include "generation.hpp"
#include "model_config.hpp"

namespace llama {

ecq::result<std::vector<std::vector<std::uint32_t>>> own_texts(
    forward_pass& pass, const model_config& config, std::span<const std::uint32_t> prompt, const own_text_options& how,
    const std::function<void(std::size_t tokens)>& progress) {
  const std::size_t longest = (std::min)(config.positions, forward_pass::most_tokens);
  if (how.tokens == 0 || how.window < 2 || how.window > longest) {
    return ecq::error(ecq::errc::invalid_argument, how.tokens, " tokens in texts of ", how.window,
                      "; expected at least 1, in texts of 2 to ", longest);
  }
  if (prompt.empty() || prompt.size() >= how.window) {
    return ecq::error(ecq::errc::invalid_argument, "texts of ", how.window, " tokens cannot begin with a prompt of ",
                      prompt.size());
  }
  std::vector<std::vector<std::uint32_t>> texts;
  std::size_t done = 0;
  for (std::uint64_t seed = how.seed; done < how.tokens; ++seed) {
    if (progress) progress(done);
    ECQ_TRY(made,
            generate(pass, config, prompt, {.tokens = how.window - prompt.size(), .temperature = 1, .seed = seed}));
    if (made.tokens.empty() && texts.empty() && seed - how.seed == 100) {
      return ecq::error(ecq::errc::invalid_argument, "the model ended each of 100 texts immediately");
    }
    if (made.tokens.empty()) continue;
    auto& text = texts.emplace_back(prompt.begin(), prompt.end());
    text.insert(text.end(), made.tokens.begin(), made.tokens.end());
    done += text.size();
  }
  return texts;
}

}  // namespace llama
