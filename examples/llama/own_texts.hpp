#pragma once
/// \file
/// Texts that a model writes itself, instead of data.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

class forward_pass;
struct model_config;

struct own_text_options {
  std::size_t tokens = 16384;  ///< of all texts together, approximately; at least 1
  std::size_t window = 256;    ///< tokens of a text, at most the context and forward_pass::most_tokens; at least 2
  std::uint64_t seed = 0;      ///< of the first text; others follow
};

/// Returns texts that begin with `prompt` and that the model continues, each with a seed of its own. Calls
/// `progress(tokens so far)` before each. Errors: ecq::errc::invalid_argument for options out of range, a prompt that
/// is empty or at least as long as the window, and a model that ends each text at once; those of generate.
ecq::result<std::vector<std::vector<std::uint32_t>>> own_texts(forward_pass& pass, const model_config& config,
                                                               std::span<const std::uint32_t> prompt,
                                                               const own_text_options& how,
                                                               const std::function<void(std::size_t tokens)>& progress);

}  // namespace llama
