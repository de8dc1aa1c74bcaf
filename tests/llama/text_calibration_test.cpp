// The pass that calibrates stops at every input, and sees there what the forward pass computes.

#include "../../examples/llama/text_calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../examples/llama/forward.hpp"
#include "../../examples/llama/kv_cache.hpp"
#include "../../examples/llama/layer_source.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::matrix_view;
using llama::projection;
using llama_test::tiny_model;

class LlamaTextCalibration : public testing::Test {
 protected:
  LlamaTextCalibration() { written.write(folder / "model"); }

  llama::model opened() const { return std::move(*llama::model::open(folder / "model", {}, ecq::cpu{})); }

  /// The weights of a tensor, times `factor`.
  std::vector<float> weights_of(const std::string& name, float factor = 1) const {
    std::vector<float> weights = written.values.at(name);
    for (float& weight : weights) weight *= factor;
    return weights;
  }

  ecq_test::temporary_folder folder;
  tiny_model written;
  std::vector<std::vector<std::uint32_t>> texts{llama_test::some_tokens(40), llama_test::some_tokens(17)};
};

TEST_F(LlamaTextCalibration, StopsAtEveryInputInTheOrderOfComputation) {
  const llama::model model = opened();
  llama::thread_pool pool(1);
  llama::text_calibration pass(model, pool, texts);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(pass.restart());
    for (std::size_t index = 0; index < tiny_model::layers * llama::projections;) {
      const auto names = pass.next();
      ASSERT_TRUE(names && !names->empty());
      for (const std::string& name : *names) {
        EXPECT_EQ(name, llama::tensor_name(index / llama::projections, projection(index % llama::projections)));
        ++index;
      }
    }
    for (int call = 0; call < 2; ++call) {
      const auto names = pass.next();
      ASSERT_TRUE(names);
      EXPECT_TRUE(names->empty());
    }
  }
}

// While nothing is quantised, or only to itself, both models see the same, which is what a forward pass computes.
TEST_F(LlamaTextCalibration, SeesWhatTheForwardPassComputes) {
  const llama::model model = opened();
  llama::thread_pool pool(2);
  constexpr std::size_t wide = tiny_model::intermediate;
  std::vector<std::vector<double>> expected(tiny_model::layers, std::vector<double>(wide * wide));
  std::size_t tokens = 0;
  llama::forward_pass plain(model, pool);
  plain.observe_down([&](std::size_t layer, matrix_view<const float> in, matrix_view<const float>) {
    for (std::size_t token = 0; token < in.rows(); ++token) {
      for (std::size_t i = 0; i < wide; ++i) {
        for (std::size_t j = 0; j < wide; ++j) {
          expected[layer][i * wide + j] += static_cast<double>(in(token, i)) * static_cast<double>(in(token, j));
        }
      }
    }
  });
  llama::kv_cache cache(model.config());
  for (const auto& text : texts) {
    cache.clear();
    ASSERT_TRUE(plain.run(text, cache));
    tokens += text.size();
  }

  llama::text_calibration pass(model, pool, texts);
  ASSERT_TRUE(pass.restart());
  for (std::size_t layer = 0; layer < tiny_model::layers; ++layer) {
    ecq::input_moments moments;
    for (int input = 0; input < 4; ++input) {
      const auto names = pass.next();
      ASSERT_TRUE(names);
      auto seen = pass.moments();
      ASSERT_TRUE(seen) << seen.error().to_string();
      EXPECT_TRUE(seen->check({}));
      EXPECT_EQ(seen->second, seen->cross) << names->front();
      EXPECT_EQ(seen->tokens, tokens);
      moments = std::move(*seen);
      for (const std::string& name : *names) {
        const auto weights = weights_of(name);
        ASSERT_TRUE(pass.replace(name, {weights.data(), weights.size() / moments.width, moments.width}));
      }
    }
    ASSERT_EQ(moments.width, wide);
    for (std::size_t at = 0; at < wide * wide; ++at) {
      const double of_token = expected[layer][at] / static_cast<double>(tokens);
      EXPECT_NEAR(moments.second[at], of_token, 1e-6 * (1 + std::fabs(of_token)));
    }
  }
}

TEST_F(LlamaTextCalibration, ComputesWithWhatWasReplaced) {
  const llama::model model = opened();
  llama::thread_pool pool(1);
  llama::text_calibration pass(model, pool, texts);
  ASSERT_TRUE(pass.restart());
  const auto at = [&](const std::string& name) {
    for (;;) {
      const auto names = pass.next();
      EXPECT_TRUE(names);
      if (!names || names->empty() || names->front() == name) return;
    }
  };
  at(llama::tensor_name(0, projection::gate));
  const std::string up = llama::tensor_name(0, projection::up);
  const auto twice = weights_of(up, 2);
  ASSERT_TRUE(pass.replace(up, {twice.data(), tiny_model::intermediate, tiny_model::hidden}));
  at(llama::tensor_name(0, projection::down));
  const auto moments = pass.moments();
  ASSERT_TRUE(moments);
  // Inputs of the quantised model are twice the original's.
  for (std::size_t i = 0; i < moments->second.size(); ++i) EXPECT_EQ(moments->second[i], 2 * moments->cross[i]);
  ASSERT_TRUE(pass.restart());
  at(llama::tensor_name(0, projection::down));
  const auto again = pass.moments();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->second, again->cross);
}

}  // namespace
