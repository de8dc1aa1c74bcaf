#pragma once
/// \file
/// Super weights: single weights of down projections that a model falls apart without. They show in one forward pass,
/// as both their input and their output are far larger than any other (Yu et al. 2024, EntQuant A.2). The converse does
/// not hold: in a small model, channels may be large without one weight that makes them so.

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
  float input = 0;   ///< what SwiGLU gives
  float output = 0;  ///< what is added to the residual stream; of an expert, before its share

  /// How high a threshold finds it.
  float strength() const noexcept { return (std::min)(input, output); }
};

/// What counts as super.
struct super_weight_options {
  double threshold = 50;   ///< that input and output exceed; at least 0
  std::size_t others = 0;  ///< how many of the strongest that do not are reported, too; at most
};

/// Both by descending strength.
struct super_weights {
  std::vector<super_weight> found{};
  std::vector<super_weight> others{};
};

/// Looks for super weights of `from` while it computes `tokens`. In each layer, the 25 largest input channels and the
/// 25 largest output channels of the down projection make pairs; one whose input and output exceed the threshold names
/// a super weight. Errors: ecq::errc::invalid_argument for no tokens, more than the context has, and a threshold that
/// is no number or below 0; ecq::errc::non_finite, naming the tensor, for activations that are NaN or infinite; those
/// of forward_pass::run.
ecq::result<super_weights> find_super_weights(const model& from, thread_pool& pool,
                                              std::span<const std::uint32_t> tokens,
                                              const super_weight_options& how = {});

}  // namespace llama
