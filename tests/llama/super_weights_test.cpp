// Super weights: planted ones are found, nothing else is, and every mode finds the same.

#include "../../examples/llama/super_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "../../examples/llama/layer_source.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama::weight_mode;
using llama_test::some_tokens;
using llama_test::tiny_model;

constexpr std::size_t pairs_of_layer = 25 * 25;

class LlamaSuperWeights : public testing::Test {
 protected:
  ecq::result<llama::super_weights> found_in(const std::filesystem::path& path,
                                             const llama::super_weight_options& how = {},
                                             weight_mode mode = weight_mode::dense,
                                             const std::vector<std::uint32_t>& tokens = some_tokens(48)) {
    ECQ_TRY(model, llama::model::open(path, mode, ecq::cpu{}));
    return llama::find_super_weights(model, pool, tokens, how);
  }
  ecq::result<llama::super_weights> found_in(const tiny_model& model, const llama::super_weight_options& how = {},
                                             const std::vector<std::uint32_t>& tokens = some_tokens(48)) {
    model.write(folder / "model");
    return found_in(folder / "model", how, weight_mode::dense, tokens);
  }

  ecq_test::temporary_folder folder;
  llama::thread_pool pool{2};
};

TEST_F(LlamaSuperWeights, ThePlantedOneIsFoundAndNothingElse) {
  tiny_model model;
  llama_test::plant_super_weight(model, -200);
  const auto seen = found_in(model);
  ASSERT_TRUE(seen) << seen.error().to_string();
  ASSERT_EQ(seen->found.size(), 1U);
  const llama::super_weight& one = seen->found.front();
  EXPECT_EQ(std::tuple(one.layer, one.row, one.column), std::tuple(0U, 17U, 33U));
  EXPECT_EQ(one.weight, -200.0F);
  EXPECT_GT(one.input, 50.0F);
  EXPECT_NEAR(one.output / (200 * one.input), 1, 0.01);
  EXPECT_TRUE(seen->others.empty());
}

TEST_F(LlamaSuperWeights, ThatOfAnExpertIsFound) {
  tiny_model model;
  model.become("Qwen3MoeForCausalLM");
  const std::string expert = "model.layers.0.mlp.experts.2.";
  model.scale_row(expert + "up_proj.weight", 33, 100);
  for (std::size_t row = 0; row < tiny_model::hidden; ++row) {
    model.set_weight(expert + "down_proj.weight", row, 33, row == 17 ? 200.0F : 0.01F);
  }
  const auto seen = found_in(model, {.others = 3});
  ASSERT_TRUE(seen) << seen.error().to_string();
  ASSERT_EQ(seen->found.size(), 1U);
  const llama::super_weight& one = seen->found.front();
  EXPECT_EQ(std::tuple(one.layer, one.expert, one.row, one.column), std::tuple(0U, 2U, 17U, 33U));
  EXPECT_EQ(one.weight, 200.0F);
  EXPECT_EQ(seen->others.size(), 3U);
}

TEST_F(LlamaSuperWeights, WithoutItNothingIsFound) {
  tiny_model model;
  for (const bool large_input : {false, true}) {
    if (large_input) llama_test::plant_super_weight(model, 0.1F);
    const auto seen = found_in(model);
    ASSERT_TRUE(seen);
    EXPECT_TRUE(seen->found.empty());
  }
}

TEST_F(LlamaSuperWeights, EveryModeSaysTheSame) {
  tiny_model model;
  llama_test::plant_super_weight(model);
  const auto plain = found_in(model, {.others = 5});
  ASSERT_TRUE(
      ecq::compress_folder(ecq::cpu{}, folder / "model", folder / "packed", {.method = ecq::lossless_weights{}}));
  for (const weight_mode mode : {weight_mode::dense, weight_mode::block, weight_mode::fused}) {
    const auto seen = found_in(folder / "packed", {.others = 5}, mode);
    ASSERT_TRUE(plain && seen);
    ASSERT_EQ(seen->found.size(), 1U);
    ASSERT_EQ(seen->others.size(), 5U);
    EXPECT_EQ(seen->found[0].row, 17U);
    EXPECT_EQ(seen->found[0].column, 33U);
    EXPECT_EQ(seen->found[0].weight, 200.0F);
    for (std::size_t at = 0; at < 5; ++at) {
      EXPECT_EQ(seen->others[at].weight, plain->others[at].weight);
      EXPECT_NEAR(seen->others[at].strength() / plain->others[at].strength(), 1, 1e-4);
    }
  }
}

TEST_F(LlamaSuperWeights, CandidatesAreTheStrongestOnBothSidesOfTheThreshold) {
  const tiny_model model;
  const auto all = found_in(model, {.others = 10000});
  ASSERT_TRUE(all);
  ASSERT_EQ(all->others.size(), tiny_model::layers * pairs_of_layer);
  std::set<std::tuple<std::size_t, std::size_t, std::size_t>> places;
  for (const llama::super_weight& one : all->others) {
    places.insert({one.layer, one.row, one.column});
    const auto name = llama::tensor_name(one.layer, llama::projection::down);
    EXPECT_EQ(one.weight, model.values.at(name)[one.row * tiny_model::intermediate + one.column]);
  }
  EXPECT_EQ(places.size(), all->others.size());
  EXPECT_TRUE(std::is_sorted(all->others.begin(), all->others.end(),
                             [](const auto& left, const auto& right) { return left.strength() > right.strength(); }));
  // The threshold divides the same list; a weight that equals it stays below.
  const std::size_t place = 7;
  const auto threshold = static_cast<double>(all->others[place].strength());
  const auto parted = found_in(model, {.threshold = threshold, .others = 10000});
  ASSERT_TRUE(parted);
  EXPECT_EQ(parted->found.size() + parted->others.size(), all->others.size());
  EXPECT_GT(static_cast<double>(parted->found.back().strength()), threshold);
  EXPECT_EQ(static_cast<double>(parted->others.front().strength()), threshold);
}

TEST_F(LlamaSuperWeights, TokensOfEveryPassCount) {
  tiny_model model;
  model.config["max_position_embeddings"] = "512";
  llama_test::plant_super_weight(model);
  const llama::super_weight_options how{.threshold = 0};
  const auto strength = [&](const std::vector<std::uint32_t>& tokens) {
    const auto seen = found_in(model, how, tokens);
    return seen && !seen->found.empty() ? seen->found.front().strength() : -1.0F;
  };
  std::vector<std::uint32_t> tokens(300, 3);
  const float before = strength(tokens);
  EXPECT_GT(before, 0.0F);
  const std::vector<std::uint32_t> others = some_tokens(40);
  std::copy(others.begin(), others.end(), tokens.end() - 40);
  EXPECT_GT(strength(tokens), 1.5F * before);
}

TEST_F(LlamaSuperWeights, RefusesWhatMakesNoSense) {
  tiny_model model;
  const auto code = [](const ecq::result<llama::super_weights>& outcome) {
    return outcome ? errc::ok : outcome.error().code();
  };
  for (const double threshold : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(code(found_in(model, {.threshold = threshold})), errc::invalid_argument);
  }
  EXPECT_EQ(code(found_in(model, {}, {})), errc::invalid_argument);
  EXPECT_EQ(code(found_in(model, {}, some_tokens(49))), errc::invalid_argument);
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    model.set_weight("model.layers.1.mlp.down_proj.weight", 3, 4, odd);
    const auto seen = found_in(model);
    ASSERT_EQ(code(seen), errc::non_finite);
    EXPECT_EQ(seen.error().message(), "tensor 'model.layers.1.mlp.down_proj.weight': an activation is NaN or infinite");
  }
}

}  // namespace
