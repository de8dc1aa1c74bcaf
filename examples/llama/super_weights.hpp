#pragma once
/// \file
/// Super weights: single weights of down projections without which a model falls apart. They show in one forward pass,
/// because both their input and their output are far larger than any other (Yu et al. 2024, EntQuant A.2). The converse
/// does not hold: in a small model, channels may be large without one weight that makes them so.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

class model;
class thread_pool;

/// A weight of a down projection of a layer, and the largest magnitudes that its channels had in any token.
struct super_weight {
  std::size_t layer = 0;
  std::size_t expert = 0;
  std::size_t row = 0;     ///< output channel
  std::size_t column = 0;  ///< input channel
  float weight = 0;
  float input = 0;   ///< magnitude in the output of SwiGLU
  float output = 0;  ///< magnitude in the product added to the residual stream; for an expert, before its share

  /// Returns the largest threshold that input and output reach.
  float strength() const noexcept { return (std::min)(input, output); }
};

/// Options of find_super_weights().
struct super_weight_options {
  double threshold = 50;   ///< that input and output must exceed; at least 0
  std::size_t others = 0;  ///< maximum number of the strongest weights below it to report as well
};

/// Result of find_super_weights(); both lists by descending strength.
struct super_weights {
  std::vector<super_weight> found{};
  std::vector<super_weight> others{};
};

/// Looks for super weights of `from` while it computes `tokens`. In each layer, the 25 largest input channels and the
/// 25 largest output channels of the down projection make pairs. A pair whose input and output both exceed the
/// threshold is a super weight. Errors: ecq::errc::invalid_argument for no tokens, more than the context has, and a
/// threshold that is NaN or below 0; ecq::errc::non_finite, naming the tensor, for activations that are NaN or
/// infinite; those of forward_pass::run.
ecq::result<super_weights> find_super_weights(const model& from, thread_pool& pool,
                                              std::span<const std::uint32_t> tokens,
                                              const super_weight_options& how = {});

}  // namespace llama
