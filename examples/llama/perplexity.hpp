#pragma once
/// \file
/// Perplexity: a measure of the predictions of text by a model.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ecq/base/result.hpp"

namespace llama {

class forward_pass;
struct model_config;
class thread_pool;
struct window_options;

/// Result of measure_perplexity().
struct perplexity_result {
  double loss = 0;  ///< mean of -log(probability), nats per token
  std::size_t windows = 0;
  std::size_t predictions = 0;
  double seconds = 0;

  double perplexity() const noexcept;
};

/// Measures the mean loss over the windows of `tokens`. Calls `progress(windows done, of all)` before each. Errors:
/// those of text_windows::of; those of window_reader, which name the window.
ecq::result<perplexity_result> measure_perplexity(forward_pass& pass, thread_pool& pool, const model_config& config,
                                                  std::span<const std::uint32_t> tokens, const window_options& how,
                                                  const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace llama
