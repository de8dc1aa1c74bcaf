#pragma once
/// \file
/// Measures how much the output of a model depends on each of its matrices, by forward passes over text that the model
/// writes itself.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/result.hpp"
#include "own_texts.hpp"

namespace llama {

class model;
class thread_pool;

struct calibration_options {
  own_text_options texts{};
  double lambda = 14.5;  ///< for quantising a matrix; the default takes about 3 bits per weight
};

/// Loss of the model if only one matrix is quantised. An expert that no token of the texts chooses cannot be measured:
/// its matrices have the mean sensitivity, 1.
struct matrix_sensitivity {
  std::size_t layer = 0;
  std::size_t matrix = 0;     ///< its place in the layer (expert_mixture::matrices)
  double relative_error = 0;  ///< squared error of its weights, relative to the sum of their squares
  double divergence = 0;      ///< from the original predictions (Kullback and Leibler), nats per token
  double sensitivity = 0;     ///< divergence / relative_error / weights, relative to the geometric mean of all matrices
};

/// Measures all matrices of the layers of `from`, which must have been opened in mode dense. Each matrix is quantised
/// alone, and the model then reads texts that it has written itself, beginning with `prompt`; no data are needed. This
/// takes a forward pass over the texts for each matrix and one for each layer, and memory for one layer more than the
/// model has. Calls `progress(stage, done, total)`. Errors: ecq::errc::invalid_argument for options out of range, a
/// prompt that is empty or at least as long as the window, and another mode; ecq::errc::non_finite; those of
/// forward_pass::run.
ecq::result<std::vector<matrix_sensitivity>> calibrate(
    const model& from, thread_pool& pool, std::span<const std::uint32_t> prompt, const calibration_options& how = {},
    const std::function<void(std::string_view stage, std::size_t done, std::size_t total)>& progress = {});

}  // namespace llama
