#pragma once
/// \file
/// Generation of text by a model.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

class forward_pass;
struct model_config;

/// Options of generate().
struct generation_options {
  std::size_t tokens = 64;  ///< at most
  double temperature = 0;   ///< 0: greedily
  std::uint64_t seed = 0;
};

/// Result of generate().
struct generation {
  std::vector<std::uint32_t> tokens{};
  std::string_view stop{};    ///< "tokens" (as many as asked for), "end" (an end token, left out) or "context" (full)
  double prompt_seconds = 0;  ///< for the prompt, up to the first new token
  double seconds = 0;         ///< for the other tokens
  std::size_t cache_bytes = 0;
};

namespace detail {

/// Number of tokens of a prompt or a window that are computed at a time, enough for weights to be read seldom.
inline constexpr std::size_t tokens_per_pass = 256;

}  // namespace detail

/// Continues `prompt`. Calls `progress(tokens so far)` after each new token, the last of them. Errors:
/// ecq::errc::invalid_argument for a prompt without tokens or longer than the context, those of forward_pass::run and
/// check_logits.
ecq::result<generation> generate(forward_pass& pass, const model_config& config, std::span<const std::uint32_t> prompt,
                                 const generation_options& how,
                                 const std::function<void(std::span<const std::uint32_t>)>& progress = {});

}  // namespace llama
