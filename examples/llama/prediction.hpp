#pragma once
/// \file
/// What logits say: the cost of a token, and how far one prediction is from another.

#include <cstdint>
#include <span>

namespace llama {

/// log(sum of e^logit) of `logits`, which are finite.
double log_sum_of(std::span<const float> logits) noexcept;

/// -log(probability) of `token` by softmax of `logits`, which are finite.
double loss_of(std::span<const float> logits, std::uint32_t token) noexcept;

/// The divergence of Kullback and Leibler, sum of p log(p / q), of the probabilities p and q that finite logits make by
/// softmax. At least 0, and 0 for equal logits. Precondition: as many logits of p as of q.
double divergence_of(std::span<const float> of_p, std::span<const float> of_q) noexcept;

}  // namespace llama
