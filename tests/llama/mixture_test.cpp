// The choice of experts, and their names.

#include "../../examples/llama/mixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using llama::expert_mixture;
using llama::expert_names;

std::vector<llama::expert_share> chosen_of(const std::vector<float>& logits, std::size_t chosen, bool sum_to_one) {
  std::vector<llama::expert_share> found(chosen);
  llama::choose_experts({logits.size(), chosen, sum_to_one}, logits, found);
  return found;
}

TEST(LlamaMixture, TokensTakeTheExpertsOfTheLargestLogits) {
  const auto found = chosen_of({1, 3, -2, 2}, 2, false);
  const float sum = std::exp(1.0F) + std::exp(3.0F) + std::exp(-2.0F) + std::exp(2.0F);
  EXPECT_EQ(found[0].expert, 1U);
  EXPECT_EQ(found[1].expert, 3U);
  EXPECT_FLOAT_EQ(found[0].share, std::exp(3.0F) / sum);
  EXPECT_FLOAT_EQ(found[1].share, std::exp(2.0F) / sum);
}

TEST(LlamaMixture, SharesOfTheChosenMaySumToOne) {
  const auto found = chosen_of({1, 3, -2, 2}, 2, true);
  EXPECT_FLOAT_EQ(found[0].share, 1 / (1 + std::exp(-1.0F)));
  EXPECT_FLOAT_EQ(found[1].share, 1 / (1 + std::exp(1.0F)));
  EXPECT_EQ(chosen_of({7}, 1, true)[0].share, 1);
}

TEST(LlamaMixture, TheFirstOfEqualExpertsIsTakenFirst) {
  const auto found = chosen_of({0, 5, 5, 0}, 3, false);
  EXPECT_EQ(found[0].expert, 1U);
  EXPECT_EQ(found[1].expert, 2U);
  EXPECT_EQ(found[2].expert, 0U);
}

TEST(LlamaMixture, LogitsBeyondTheRangeOfExponentialsHaveShares) {
  const auto found = chosen_of({1000, 999, -1000}, 2, false);
  EXPECT_FLOAT_EQ(found[0].share, 1 / (1 + std::exp(-1.0F)));
}

TEST(LlamaMixture, LogitsThatAreNoNumbersChooseEachExpertOnce) {
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const auto& logits : {std::vector<float>{none, none, none, none},
                             {1, none, 2, none},
                             {none, 1, 2, none},
                             {infinity, infinity, 1, none},
                             {-infinity, -infinity, -infinity, -infinity}}) {
    std::set<std::size_t> experts;
    for (const auto& one : chosen_of(logits, 4, true)) experts.insert(one.expert);
    EXPECT_EQ(experts, (std::set<std::size_t>{0, 1, 2, 3}));
  }
  EXPECT_TRUE(std::isnan(chosen_of({infinity, 1}, 1, false)[0].share));
}

TEST(LlamaMixture, MatricesOfExpertsFollowThoseOfAttention) {
  const expert_mixture none{}, mixtral{8, 2, true, expert_names::mixtral}, qwen3{8, 2, true, expert_names::qwen3};
  EXPECT_EQ(none.matrices(), 7U);
  EXPECT_EQ(mixtral.matrices(), 4U + 3 * 8);
  EXPECT_EQ(llama::tensor_name(none, 3, 6), "model.layers.3.mlp.down_proj.weight");
  EXPECT_EQ(llama::tensor_name(mixtral, 3, 3), "model.layers.3.self_attn.o_proj.weight");
  EXPECT_EQ(llama::tensor_name(mixtral, 3, 4), "model.layers.3.block_sparse_moe.experts.0.w1.weight");
  EXPECT_EQ(llama::tensor_name(mixtral, 3, 5), "model.layers.3.block_sparse_moe.experts.0.w3.weight");
  EXPECT_EQ(llama::tensor_name(mixtral, 3, 9), "model.layers.3.block_sparse_moe.experts.1.w2.weight");
  EXPECT_EQ(llama::tensor_name(qwen3, 0, 26), "model.layers.0.mlp.experts.7.up_proj.weight");
  EXPECT_EQ(llama::router_name(mixtral, 2), "model.layers.2.block_sparse_moe.gate.weight");
  EXPECT_EQ(llama::router_name(qwen3, 2), "model.layers.2.mlp.gate.weight");
  for (std::size_t index = 4; index < mixtral.matrices(); ++index) {
    EXPECT_EQ(llama::matrix_index(llama::projection_at(index), llama::expert_at(index)), index);
    EXPECT_EQ(llama::shares_input(index), index % 3 == 2) << index;
  }
}

}  // namespace
