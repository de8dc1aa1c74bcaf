#pragma once
/// \file
/// What logits say: the cost of a token, and how far one prediction is from another.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace llama {

/// log(sum of e^logit) of `logits`, which are finite.
inline double log_sum_of(std::span<const float> logits) noexcept {
  const double highest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest;
}

/// -log(probability) of `token` by softmax of `logits`, which are finite.
inline double loss_of(std::span<const float> logits, std::uint32_t token) noexcept {
  return log_sum_of(logits) - static_cast<double>(logits[token]);
}

/// The divergence of Kullback and Leibler, sum of p log(p / q), of the probabilities p and q that finite logits make by
/// softmax. At least 0, and 0 for equal logits. Precondition: as many logits of p as of q.
inline double divergence_of(std::span<const float> of_p, std::span<const float> of_q) noexcept {
  const double sum_p = log_sum_of(of_p), sum_q = log_sum_of(of_q);
  double divergence = 0;
  for (std::size_t i = 0; i < of_p.size(); ++i) {
    const double log_p = static_cast<double>(of_p[i]) - sum_p;
    divergence += std::exp(log_p) * (log_p - (static_cast<double>(of_q[i]) - sum_q));
  }
  return (std::max)(divergence, 0.0);  // rounding aside, it is never negative
}

}  // namespace llama
