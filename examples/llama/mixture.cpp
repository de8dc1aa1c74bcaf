// Choice of experts, and the names of their tensors.

#include "mixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace llama {

namespace {

std::string mixture_name(const expert_mixture& mixture, std::size_t layer) {
  return layer_name(layer) + (mixture.names == expert_names::mixtral ? "block_sparse_moe." : "mlp.");
}

}  // namespace

std::string tensor_name(const expert_mixture& mixture, std::size_t layer, std::size_t index) {
  const projection which = projection_at(index);
  if (mixture.experts == 0 || index < attention_projections) return tensor_name(layer, which);
  constexpr std::array<const char*, feed_forward_projections> of_mixtral{"w1", "w3", "w2"};
  constexpr std::array<const char*, feed_forward_projections> of_qwen3{"gate_proj", "up_proj", "down_proj"};
  const auto& names = mixture.names == expert_names::mixtral ? of_mixtral : of_qwen3;
  return mixture_name(mixture, layer) + "experts." + std::to_string(expert_at(index)) + "." +
         names[static_cast<std::size_t>(which) - attention_projections] + ".weight";
}

std::string router_name(const expert_mixture& mixture, std::size_t layer) {
  return mixture_name(mixture, layer) + "gate.weight";
}

std::vector<float> shares_of(std::span<const float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  std::vector<float> shares;
  for (const float logit : logits) shares.push_back(std::exp(logit - highest) / sum);
  return shares;
}

void choose_experts(const expert_mixture& mixture, std::span<const float> logits, std::span<expert_share> chosen) {
  const std::vector<float> shares = shares_of(logits);
  std::vector<bool> taken(logits.size());
  float sum_of_chosen = 0;
  for (expert_share& one : chosen) {
    std::size_t best = logits.size();  // a NaN is taken only where nothing else is left
    for (std::size_t expert = 0; expert < logits.size(); ++expert) {
      if (taken[expert]) continue;
      if (best == logits.size() || logits[expert] > logits[best]) best = expert;
    }
    taken[best] = true;
    one = {best, shares[best]};
    sum_of_chosen += one.share;
  }
  if (!mixture.shares_sum_to_one) return;
  for (expert_share& one : chosen) one.share /= sum_of_chosen;
}

}  // namespace llama
