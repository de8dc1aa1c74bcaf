// Chooses the next token from logits, the same on every machine.

#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace llama {

ecq::result<void> check_logits(std::span<const float> logits) {
  const auto odd = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  if (odd == logits.end()) return {};
  return ecq::error(ecq::errc::non_finite, "the logit of token ", std::distance(logits.begin(), odd), " is ",
                    std::isnan(*odd) ? "NaN" : "infinite");
}

ecq::result<std::uint32_t> sampler::next(std::span<const float> logits) {
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
  // The upper 53 bits, as a fraction. The distributions of standard libraries differ from each other.
  const double chosen = std::ldexp(static_cast<double>(random_() >> 11U), -53) * sum;
  const auto found = std::upper_bound(shares_.begin(), shares_.end(), chosen);
  return token_at((std::min)(std::distance(shares_.begin(), found), std::ssize(shares_) - 1));
}

}  // namespace llama
