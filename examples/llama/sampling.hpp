#pragma once
/// \file
/// The next token from logits.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

/// Fails with ecq::errc::non_finite unless all logits are finite; a weight may be NaN.
inline ecq::result<void> check_logits(std::span<const float> logits) {
  const auto odd = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  if (odd == logits.end()) return {};
  return ecq::error(ecq::errc::non_finite, "the logit of token ", std::distance(logits.begin(), odd), " is ",
                    std::isnan(*odd) ? "NaN" : "infinite");
}

/// Chooses tokens: the likeliest, or at random by their probabilities.
class sampler {
 public:
  /// `temperature` 0: always the likeliest token, the first of several; otherwise logits are divided by it. The same
  /// seed gives the same tokens on every machine whose logits and exponential function are the same.
  sampler(double temperature, std::uint64_t seed) : temperature_(temperature), random_(seed) {}

  /// Errors: those of check_logits.
  ecq::result<std::uint32_t> next(std::span<const float> logits) {
    ECQ_CHECK(check_logits(logits));
    const auto likeliest = std::max_element(logits.begin(), logits.end());
    const auto token_at = [&](auto at) { return static_cast<std::uint32_t>(at); };
    if (!(temperature_ > 0)) return token_at(std::distance(logits.begin(), likeliest));
    double sum = 0;
    shares_.clear();
    for (const float logit : logits) {
      sum += std::exp((static_cast<double>(logit) - static_cast<double>(*likeliest)) / temperature_);
      shares_.push_back(sum);
    }
    // The upper 53 bits, as a fraction; distributions of the standard library differ from one to another.
    const double chosen = std::ldexp(static_cast<double>(random_() >> 11U), -53) * sum;
    const auto found = std::upper_bound(shares_.begin(), shares_.end(), chosen);
    return token_at((std::min)(std::distance(shares_.begin(), found), std::ssize(shares_) - 1));
  }

 private:
  double temperature_;
  std::mt19937_64 random_;
  std::vector<double> shares_;  ///< sums of the probabilities up to each token
};

}  // namespace llama
