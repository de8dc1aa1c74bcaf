// Sums over the logits of a prediction, in double precision.

#include "prediction.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace llama {

double log_sum_of(std::span<const float> logits) noexcept {
  const double highest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest;
}

double loss_of(std::span<const float> logits, std::uint32_t token) noexcept {
  return log_sum_of(logits) - static_cast<double>(logits[token]);
}

double divergence_of(std::span<const float> of_p, std::span<const float> of_q) noexcept {
  const double sum_p = log_sum_of(of_p), sum_q = log_sum_of(of_q);
  double divergence = 0;
  for (std::size_t i = 0; i < of_p.size(); ++i) {
    const double log_p = static_cast<double>(of_p[i]) - sum_p;
    divergence += std::exp(log_p) * (log_p - (static_cast<double>(of_q[i]) - sum_q));
  }
  return (std::max)(divergence, 0.0);  // rounding aside, it is never negative
}

}  // namespace llama
