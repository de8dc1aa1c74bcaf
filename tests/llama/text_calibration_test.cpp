// The calibration pass stops at every input, and sees there what the forward pass computes.

#include "../../examples/llama/text_calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
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

  /// Gives the model experts from now on.
  void add_experts() {
    written.become("MixtralForCausalLM");
    std::filesystem::remove_all(folder / "model");
    written.write(folder / "model");
  }

  llama::model opened() const { return std::move(*llama::model::open(folder / "model", {}, ecq::cpu{})); }

  /// Returns the weights of a tensor, times `factor`.
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
  for (const bool has_experts : {false, true}) {
    if (has_experts) add_experts();
    const llama::model model = opened();
    const llama::expert_mixture& mixture = model.config().mixture;
    llama::thread_pool pool(1);
    llama::text_calibration pass(model, pool, texts);
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(pass.restart());
      for (std::size_t index = 0; index < tiny_model::layers * mixture.matrices();) {
        const auto names = pass.next();
        ASSERT_TRUE(names && !names->empty());
        for (const std::string& name : *names) {
          EXPECT_EQ(name, llama::tensor_name(mixture, index / mixture.matrices(), index % mixture.matrices()));
          EXPECT_EQ(llama::shares_input(index % mixture.matrices()), name != names->front());
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
}

// While nothing is quantised, or matrices are replaced by themselves, both models see what a forward pass computes.
TEST_F(LlamaTextCalibration, SeesWhatTheForwardPassComputes) {
  const llama::model model = opened();
  llama::thread_pool pool(2);
  constexpr std::size_t wide = tiny_model::intermediate;
  std::vector<std::vector<double>> expected(tiny_model::layers, std::vector<double>(wide * wide));
  std::size_t tokens = 0;
  llama::forward_pass plain(model, pool);
  plain.observe_down([&](std::size_t layer, std::size_t, matrix_view<const float> in, matrix_view<const float>) {
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

// Experts that fewer tokens choose than they have columns also see the tokens whose logits come closest.
TEST_F(LlamaTextCalibration, ExpertsSeeTheTokensThatChooseThem) {
  add_experts();
  const llama::model model = opened();
  llama::thread_pool pool(1);
  constexpr std::size_t hidden = tiny_model::hidden, wide = tiny_model::expert_width, experts = tiny_model::experts;
  texts.push_back(llama_test::some_tokens(48));
  struct token_of_expert {
    bool chooses;
    double share;
    std::vector<float> down_input;
  };
  std::vector<std::vector<token_of_expert>> tokens(experts);
  const auto matrices = model.layers().layer(0);
  ASSERT_TRUE(matrices);
  llama::forward_pass plain(model, pool);
  llama::kv_cache cache(model.config());
  for (const auto& text : texts) {
    std::vector<float> states;
    for (const std::uint32_t token : text) {
      for (std::size_t column = 0; column < hidden; ++column) {
        states.push_back(static_cast<float>(model.embedding()(token, column)));
      }
    }
    plain.resume({states.data(), text.size(), hidden}, cache);
    plain.attention_input(0);
    ASSERT_TRUE(plain.attention(0, *matrices, cache));
    ASSERT_TRUE(plain.add_attention(0, *matrices));
    plain.feed_forward_input(0);
    const auto logits = plain.choose(0);
    ASSERT_TRUE(logits);
    std::vector<std::size_t> all(text.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const auto takers = plain.takers(expert);
      const auto in = plain.gate(0, *matrices, expert, plain.input_of(all));
      ASSERT_TRUE(in);
      for (const std::size_t token : all) {
        double sum = 0;
        for (std::size_t each = 0; each < experts; ++each) sum += std::exp(static_cast<double>((*logits)(token, each)));
        tokens[expert].push_back({std::find(takers.begin(), takers.end(), token) != takers.end(),
                                  std::exp(static_cast<double>((*logits)(token, expert))) / sum,
                                  {&(*in)(token, 0), &(*in)(token, 0) + wide}});
      }
    }
  }

  llama::text_calibration pass(model, pool, texts);
  ASSERT_TRUE(pass.restart());
  for (int input = 0; input < 2; ++input) ASSERT_TRUE(pass.next());
  std::size_t with_others = 0, without = 0;
  for (std::vector<token_of_expert>& of_expert : tokens) {
    std::sort(of_expert.begin(), of_expert.end(), [](const token_of_expert& left, const token_of_expert& right) {
      return std::pair(left.chooses, left.share) > std::pair(right.chooses, right.share);
    });
    const auto takers = static_cast<std::size_t>(
        std::count_if(of_expert.begin(), of_expert.end(), [](const token_of_expert& one) { return one.chooses; }));
    of_expert.resize((std::max)(hidden, takers));
    ++(takers < hidden ? with_others : without);
    ASSERT_TRUE(pass.next());
    const auto of_gate = pass.moments();
    ASSERT_TRUE(of_gate);
    EXPECT_EQ(of_gate->width, hidden);
    EXPECT_EQ(of_gate->tokens, of_expert.size());
    ASSERT_TRUE(pass.next());
    const auto of_down = pass.moments();
    ASSERT_TRUE(of_down);
    EXPECT_EQ(of_down->tokens, of_expert.size());
    EXPECT_EQ(of_down->second, of_down->cross);
    for (std::size_t at = 0; at < wide * wide; ++at) {
      double mean = 0;
      for (const token_of_expert& one : of_expert) {
        mean += static_cast<double>(one.down_input[at / wide]) * static_cast<double>(one.down_input[at % wide]) /
                static_cast<double>(of_expert.size());
      }
      ASSERT_NEAR(of_down->second[at], mean, 1e-6 * (1 + std::fabs(mean)));
    }
  }
  EXPECT_GE(with_others, 1U);
  EXPECT_GE(without, 1U);
}

TEST_F(LlamaTextCalibration, ExpertsOfShortTextsLearnFromAllTokens) {
  add_experts();
  texts = {llama_test::some_tokens(3), llama_test::some_tokens(2)};
  const llama::model model = opened();
  llama::thread_pool pool(1);
  llama::text_calibration pass(model, pool, texts);
  ASSERT_TRUE(pass.restart());
  for (std::size_t input = 0; input < 2 * (2 + 2 * tiny_model::experts); ++input) {
    ASSERT_TRUE(pass.next());
    const auto moments = pass.moments();
    ASSERT_TRUE(moments) << moments.error().to_string();
    EXPECT_EQ(moments->tokens, 5U);
  }
}

TEST_F(LlamaTextCalibration, ComputesWithExpertsThatWereReplaced) {
  add_experts();
  const llama::model model = opened();
  llama::thread_pool pool(1);
  llama::text_calibration pass(model, pool, texts);
  ASSERT_TRUE(pass.restart());
  const std::string layer = "model.layers.0.block_sparse_moe.experts.1.";
  for (;;) {
    const auto names = pass.next();
    ASSERT_TRUE(names && !names->empty());
    if (names->back() == layer + "w3.weight") break;
  }
  const auto twice = weights_of(layer + "w3.weight", 2);
  ASSERT_TRUE(pass.replace(layer + "w3.weight", {twice.data(), tiny_model::expert_width, tiny_model::hidden}));
  ASSERT_EQ(pass.next()->front(), layer + "w2.weight");
  auto moments = pass.moments();
  ASSERT_TRUE(moments);
  for (std::size_t i = 0; i < moments->second.size(); ++i) EXPECT_EQ(moments->second[i], 2 * moments->cross[i]);
  while (pass.next()->front() != "model.layers.1.self_attn.q_proj.weight") continue;
  moments = pass.moments();
  ASSERT_TRUE(moments);
  EXPECT_NE(moments->second, moments->cross);
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
