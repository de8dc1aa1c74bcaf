#pragma once
/// \file
/// Choice of the next token from logits.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

/// Fails with ecq::errc::non_finite unless all logits are finite. A weight that is NaN, for instance, can make them
/// NaN.
ecq::result<void> check_logits(std::span<const float> logits);

/// Chooses tokens: the likeliest, or at random by their probabilities.
class sampler {
 public:
  /// With `temperature` 0, the sampler always chooses the likeliest token, the first of several; otherwise, logits are
  /// divided by it. The same seed gives the same tokens on every machine whose logits and exponential function are the
  /// same.
  sampler(double temperature, std::uint64_t seed) : temperature_(temperature), random_(seed) {}

  /// Chooses the next token. Errors: those of check_logits.
  ecq::result<std::uint32_t> next(std::span<const float> logits);

 private:
  double temperature_;
  std::mt19937_64 random_;
  std::vector<double> shares_;  ///< sums of the probabilities up to each token
};

}  // namespace llama
