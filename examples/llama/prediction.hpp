#pragma once
/// \file
/// Figures of predictions given as logits: the cost of a token, and the divergence between two predictions.

#include <cstdint>
#include <span>

namespace llama {

/// Returns log(sum of e^logit). Precondition: `logits` are finite.
double log_sum_of(std::span<const float> logits) noexcept;

/// Returns -log(probability) of `token` by softmax of `logits`. Precondition: they are finite.
double loss_of(std::span<const float> logits, std::uint32_t token) noexcept;

/// Returns the divergence of Kullback and Leibler, sum of p log(p / q), where p and q are the softmax of finite logits.
/// It is at least 0, and 0 for equal logits. Precondition: as many logits of p as of q.
double divergence_of(std::span<const float> of_p, std::span<const float> of_q) noexcept;

}  // namespace llama
