#pragma once
/// \file
/// Mixtures of experts: a layer has several feed-forward networks, of which each token takes some.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "projection.hpp"

namespace llama {

/// Model family whose names the tensors of experts have.
enum class expert_names : std::uint8_t { mixtral, qwen3 };

/// The experts of each layer. Without experts, a layer has one network, which all tokens take.
struct expert_mixture {
  std::size_t experts = 0;
  std::size_t chosen = 0;          ///< experts that a token takes: 1 to `experts`
  bool shares_sum_to_one = false;  ///< whether a token's shares are divided by their sum
  expert_names names{};

  bool operator==(const expert_mixture&) const = default;

  /// The number of matrices of a layer: those of attention, then gate, up and down of one network after another.
  std::size_t matrices() const noexcept { return matrix_index(projection::gate, experts == 0 ? 1 : experts); }
};

/// Returns the name of the tensor of matrix `index` of a layer.
std::string tensor_name(const expert_mixture& mixture, std::size_t layer, std::size_t index);

/// Returns the name of the tensor of a layer's router. Tokens choose by its rows, one for each expert.
std::string router_name(const expert_mixture& mixture, std::size_t layer);

/// An expert that a token takes, and the factor for its output.
struct expert_share {
  std::size_t expert = 0;
  float share = 0;
};

/// Returns the shares of all experts, by softmax over their logits.
std::vector<float> shares_of(std::span<const float> logits);

/// Sets `chosen` to the experts of the largest `logits`, in descending order and the first of equal ones first, with
/// shares by softmax over all. `logits` has one element for each expert, `chosen` as many as the mixture says. If a
/// logit is not finite, shares may be NaN.
void choose_experts(const expert_mixture& mixture, std::span<const float> logits, std::span<expert_share> chosen);

}  // namespace llama
