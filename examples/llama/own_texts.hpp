#pragma once
/// \file
/// Texts that a model writes itself, in the place of data.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ecq/base/result.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "model_config.hpp"

namespace llama {

struct own_text_options {
  std::size_t tokens = 16384;  ///< of all texts together, about; at least 1
  std::size_t window = 256;    ///< tokens of a text, at most the context and forward_pass::most_tokens; at least 2
  std::uint64_t seed = 0;      ///< of the first text; others follow
};

/// Texts that the model writes behind `prompt`, each of its own seed. Calls `progress(tokens so far)` before each.
/// Errors: ecq::errc::invalid_argument for options out of range, an empty prompt, one as long as the window, and a
/// model that ends each text at once; those of generate.
inline ecq::result<std::vector<std::vector<std::uint32_t>>> own_texts(
    forward_pass& pass, const model_config& config, std::span<const std::uint32_t> prompt, const own_text_options& how,
    const std::function<void(std::size_t tokens)>& progress) {
  const std::size_t longest = (std::min)(config.positions, forward_pass::most_tokens);
  if (how.tokens == 0 || how.window < 2 || how.window > longest) {
    return ecq::error(ecq::errc::invalid_argument, how.tokens, " tokens in texts of ", how.window,
                      ", not at least 1, in texts of 2 to ", longest);
  }
  if (prompt.empty() || prompt.size() >= how.window) {
    return ecq::error(ecq::errc::invalid_argument, "texts of ", how.window, " tokens that begin with ", prompt.size());
  }
  std::vector<std::vector<std::uint32_t>> texts;
  std::size_t done = 0;
  for (std::uint64_t seed = how.seed; done < how.tokens; ++seed) {
    if (progress) progress(done);
    ECQ_TRY(made,
            generate(pass, config, prompt, {.tokens = how.window - prompt.size(), .temperature = 1, .seed = seed}));
    if (made.tokens.empty() && texts.empty() && seed - how.seed == 100) {
      return ecq::error(ecq::errc::invalid_argument, "the model ends each of 100 texts at once");
    }
    if (made.tokens.empty()) continue;
    auto& text = texts.emplace_back(prompt.begin(), prompt.end());
    text.insert(text.end(), made.tokens.begin(), made.tokens.end());
    done += text.size();
  }
  return texts;
}

}  // namespace llama
