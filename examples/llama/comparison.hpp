#pragma once
/// \file
/// Comparison of a model with one of other weights: the error of these weights, and the loss in its predictions.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/base/result.hpp"
#include "text_windows.hpp"

namespace ecq {
struct cpu;
}

namespace llama {

class model;
struct model_config;
class thread_pool;

/// Fails with ecq::errc::invalid_argument, naming the size, unless both models have the same shape and vocabulary.
ecq::result<void> check_same_shape(const model_config& original, const model_config& other);

/// Difference between two models' predictions: means over all predictions, in nats per token.
struct prediction_difference {
  double original_loss = 0;
  double loss = 0;
  double divergence = 0;          ///< of the original's predictions from the other's (Kullback and Leibler); at least 0
  double largest_divergence = 0;  ///< mean over the window in which it is largest
  std::size_t windows = 0;
  std::size_t predictions = 0;
  double seconds = 0;
};

/// Compares the predictions of two models of the same shape for the windows of `tokens`. Memory holds the logits of a
/// part of one window. Calls `progress(windows done, of all)` before each. Errors: those of text_windows::of for
/// `config`; those of window_reader, which name the window; ecq::errc::invalid_argument for different vocabularies.
ecq::result<prediction_difference> compare_predictions(
    window_reader original, window_reader other, thread_pool& pool, const model_config& config,
    std::span<const std::uint32_t> tokens, const window_options& how,
    const std::function<void(std::size_t, std::size_t)>& progress = {});

/// Measures the unbiased error (ecq::measure_unbiased_error) of the matrices of all layers. Memory holds those of one
/// layer, twice, as FP32. Calls `progress(layers done, of all)` before each. Errors: those of check_same_shape and
/// tensor_decoder.
ecq::result<ecq::weight_error> compare_layers(const ecq::cpu& backend, const model& original, const model& other,
                                              const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace llama
