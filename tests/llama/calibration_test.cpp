// Sensitivities measured by the model itself: larger where more depends on a matrix, and the same for any threads.

#include "../../examples/llama/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../../examples/llama/layer_source.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama::matrix_sensitivity;
using llama_test::tiny_model;

constexpr std::uint32_t prompt[] = {10};
constexpr llama::calibration_options quick{.texts = {.tokens = 60, .window = 20}};

class LlamaCalibration : public testing::Test {
 protected:
  ecq::result<std::vector<matrix_sensitivity>> measured(const tiny_model& written, unsigned threads = 1,
                                                        const llama::calibration_options& how = quick,
                                                        llama::weight_mode mode = llama::weight_mode::dense) {
    written.write(folder / "model");
    ECQ_TRY(model, llama::model::open(folder / "model", mode, ecq::cpu{}));
    llama::thread_pool pool(threads);
    return llama::calibrate(model, pool, prompt, how);
  }

  ecq_test::temporary_folder folder;
};

TEST_F(LlamaCalibration, MeasuresEveryMatrixOnce) {
  const auto all = measured(tiny_model());
  ASSERT_TRUE(all) << all.error().to_string();
  ASSERT_EQ(all->size(), 2 * llama::projections);
  double logs = 0;
  for (std::size_t i = 0; i < all->size(); ++i) {
    const matrix_sensitivity& one = (*all)[i];
    EXPECT_EQ(one.layer, i / llama::projections);
    EXPECT_EQ(one.matrix, i % llama::projections);
    EXPECT_GT(one.divergence, 0);
    EXPECT_GT(one.relative_error, 0.001);
    EXPECT_LT(one.relative_error, 0.1);
    logs += std::log(one.sensitivity);
  }
  EXPECT_NEAR(logs, 0, 1e-9);
}

TEST_F(LlamaCalibration, MeasuresTheMatricesOfExperts) {
  tiny_model of_experts;
  of_experts.become("MixtralForCausalLM");
  const std::string last = "model.layers.1.block_sparse_moe.experts.4.w2.weight";
  for (std::size_t row = 0; row < tiny_model::hidden; ++row) of_experts.scale_row(last, row, 0);
  const auto all = measured(of_experts);
  ASSERT_TRUE(all) << all.error().to_string();
  constexpr std::size_t of_layer = 4 + 3 * tiny_model::experts;
  ASSERT_EQ(all->size(), 2 * of_layer);
  std::size_t without = 0;
  for (std::size_t i = 0; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].layer, i / of_layer);
    EXPECT_EQ((*all)[i].matrix, i % of_layer);
    if ((*all)[i].divergence == 0) ++without;
  }
  EXPECT_EQ(all->back().divergence, 0);
  EXPECT_EQ(without, 3U);  // gate, up and down of the expert that gives nothing
}

// Of two equally good experts, the first is chosen.
TEST_F(LlamaCalibration, ExpertsThatNoTokenChoosesHaveTheMean) {
  tiny_model of_experts;
  of_experts.become("MixtralForCausalLM");
  of_experts.config["num_experts_per_tok"] = "1";
  const std::string router = "model.layers.0.block_sparse_moe.gate.weight";
  for (std::size_t column = 0; column < tiny_model::hidden; ++column) {
    of_experts.set_weight(router, 4, column, of_experts.values[router][3 * tiny_model::hidden + column]);
  }
  const auto all = measured(of_experts);
  ASSERT_TRUE(all) << all.error().to_string();
  for (std::size_t index = 0; index < 4 + 3 * tiny_model::experts; ++index) {
    const matrix_sensitivity& one = (*all)[index];
    EXPECT_EQ(one.divergence == 0, index >= 4 + 3 * 4) << index;
    EXPECT_EQ(one.sensitivity == 1, index >= 4 + 3 * 4) << index;
  }
}

TEST_F(LlamaCalibration, GivesTheSameNumbersForAnyThreads) {
  const auto one = measured(tiny_model()), three = measured(tiny_model(), 3);
  const auto other = measured(tiny_model(), 1, {.texts = {.tokens = 60, .window = 20, .seed = 9}});
  ASSERT_TRUE(one && three && other);
  bool differs = false;
  for (std::size_t i = 0; i < one->size(); ++i) {
    EXPECT_EQ((*one)[i].sensitivity, (*three)[i].sensitivity);
    EXPECT_EQ((*one)[i].divergence, (*three)[i].divergence);
    differs = differs || (*one)[i].divergence != (*other)[i].divergence;
  }
  EXPECT_TRUE(differs);
}

// Values that no output uses do not matter, nor do the keys and queries that choose among them.
TEST_F(LlamaCalibration, FindsWhatDoesNotMatter) {
  tiny_model model;
  for (std::size_t row = 0; row < tiny_model::hidden; ++row) {
    model.scale_row("model.layers.1.self_attn.o_proj.weight", row, 0);
  }
  const auto all = measured(model);
  ASSERT_TRUE(all) << all.error().to_string();
  for (const matrix_sensitivity& one : *all) {
    if (one.layer == 1 && one.matrix < llama::attention_projections) {
      EXPECT_EQ(one.divergence, 0);
      EXPECT_EQ(one.sensitivity, 1e-6);
    } else {
      EXPECT_GT(one.sensitivity, 1e-3);
    }
  }
}

TEST_F(LlamaCalibration, RefusesWhatItCannotMeasure) {
  const auto code_of = [&](const llama::calibration_options& how, llama::weight_mode mode = llama::weight_mode::dense) {
    const auto all = measured(tiny_model(), 1, how, mode);
    return all ? errc::ok : all.error().code();
  };
  EXPECT_EQ(code_of({.texts = {.tokens = 0}}), errc::invalid_argument);
  EXPECT_EQ(code_of({.texts = {.tokens = 60, .window = 1}}), errc::invalid_argument);
  EXPECT_EQ(code_of({.texts = {.tokens = 60, .window = tiny_model::positions + 1}}), errc::invalid_argument);
  EXPECT_EQ(code_of({.texts = {.tokens = 60, .window = 20}, .lambda = -1}), errc::invalid_argument);
  tiny_model damaged;
  damaged.set_weight("model.layers.1.mlp.up_proj.weight", 3, 4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(measured(damaged).error().code(), errc::non_finite);
}

}  // namespace
