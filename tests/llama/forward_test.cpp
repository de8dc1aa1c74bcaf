// The forward pass agrees with a second decoder, and gives the same bits in every mode, with any number of threads and
// however tokens are grouped.

#include "../../examples/llama/forward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "../../examples/llama/kv_cache.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "llama/reference_decoder.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama::weight_mode;
using llama_test::some_tokens;
using llama_test::tiny_model;

llama::model opened(const std::filesystem::path& path, weight_mode mode = weight_mode::dense) {
  auto model = llama::model::open(path, mode, ecq::cpu{.threads = 2});
  if (!model) throw std::runtime_error(model.error().to_string());
  return std::move(*model);
}

/// Returns the logits of all positions, computed `at_a_time` tokens per pass.
std::vector<float> logits_of(const llama::model& model, std::span<const std::uint32_t> tokens, std::size_t at_a_time,
                             unsigned threads = 2) {
  llama::thread_pool pool(threads);
  llama::forward_pass pass(model, pool);
  llama::kv_cache cache(model.config());
  std::vector<float> all;
  while (!tokens.empty()) {
    const std::size_t count = (std::min)(at_a_time, tokens.size());
    const auto states = pass.run(tokens.first(count), cache);
    EXPECT_TRUE(states) << states.error().to_string();
    if (!states) return all;
    const auto logits = pass.logits(*states);
    EXPECT_TRUE(logits);
    all.insert(all.end(), logits->data(), logits->data() + logits->size());
    tokens = tokens.subspan(count);
  }
  return all;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return left.size() == right.size() && !left.empty() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

class LlamaForward : public testing::Test {
 protected:
  std::filesystem::path compressed(const tiny_model& model, const ecq::compress_options& how) {
    std::filesystem::remove_all(folder / "packed");
    model.write(folder / "plain");
    const auto report = ecq::compress_folder(ecq::cpu{.threads = 2}, folder / "plain", folder / "packed", how);
    EXPECT_TRUE(report) << report.error().to_string();
    EXPECT_GT(report ? report->blocks : 0, 1U);
    return folder / "packed";
  }

  /// Expects logits to differ, but by no more than `bound` times the largest.
  static void expect_close(const std::vector<float>& logits, const std::vector<float>& expected, float bound) {
    ASSERT_EQ(logits.size(), expected.size());
    float largest = 0, apart = 0;
    for (std::size_t at = 0; at < logits.size(); ++at) {
      largest = (std::max)(largest, std::fabs(expected[at]));
      apart = (std::max)(apart, std::fabs(logits[at] - expected[at]));
    }
    EXPECT_GT(largest, 3.0F);
    EXPECT_LT(apart, bound * largest);
    EXPECT_GT(apart, 0.0F);
  }

  void expect_reference(const tiny_model& model) {
    std::filesystem::remove_all(folder / "plain");
    model.write(folder / "plain");
    std::vector<float> expected;
    for (const auto& row : llama_test::reference_decoder(model).logits(tokens)) {
      for (const double logit : row) expected.push_back(static_cast<float>(logit));
    }
    expect_close(logits_of(opened(folder / "plain"), tokens, tokens.size()), expected, 1e-5F);
  }

  /// Expects the model in `folder` to compute the same bits with passes of any length and with any number of threads.
  void expect_the_same_for_passes_and_threads();

  ecq_test::temporary_folder folder;
  std::vector<std::uint32_t> tokens = some_tokens(tiny_model::positions);
};

TEST_F(LlamaForward, IsThatOfTheReference) {
  for (const bool tied : {false, true}) expect_reference(tiny_model(tied));
}

// Covers a window, biases, norms of heads, and experts.
TEST_F(LlamaForward, IsThatOfTheReferenceForOtherArchitectures) {
  for (const char* const architecture : {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM",
                                         "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"}) {
    SCOPED_TRACE(architecture);
    tiny_model model;
    model.become(architecture);
    expect_reference(model);
    const auto packed = compressed(model, {.method = ecq::entquant{.target_bits = 6.0}});
    const std::vector<float> dense = logits_of(opened(packed), tokens, 16);
    EXPECT_TRUE(same_bits(logits_of(opened(packed, weight_mode::block), tokens, 3), dense));
    expect_close(logits_of(opened(packed, weight_mode::fused), tokens, 16), dense, 0.02F);
  }
}

TEST_F(LlamaForward, SharesOfExpertsSumToOneIfTheConfigSaysSo) {
  tiny_model model;
  model.become("Qwen3MoeForCausalLM");
  model.config["norm_topk_prob"] = "true";
  expect_reference(model);
}

TEST_F(LlamaForward, DependsNeitherOnPassesNorOnThreads) {
  tiny_model().write(folder.path());
  expect_the_same_for_passes_and_threads();
}

TEST_F(LlamaForward, OfExpertsDependsNeitherOnPassesNorOnThreads) {
  tiny_model of_experts;
  of_experts.become("MixtralForCausalLM");
  of_experts.write(folder.path());
  expect_the_same_for_passes_and_threads();
}

void LlamaForward::expect_the_same_for_passes_and_threads() {
  const llama::model model = opened(folder.path());
  const std::vector<float> whole = logits_of(model, tokens, tokens.size());
  for (const std::size_t at_a_time : {1U, 2U, 3U, 7U, 31U}) {
    EXPECT_TRUE(same_bits(logits_of(model, tokens, at_a_time), whole)) << at_a_time;
  }
  for (const unsigned threads : {1U, 3U}) {
    EXPECT_TRUE(same_bits(logits_of(model, tokens, tokens.size(), threads), whole)) << threads;
  }
}

TEST_F(LlamaForward, BlocksThatWereCodedWithoutLossGiveTheSameBits) {
  const tiny_model model;
  const auto packed = compressed(model, {.method = ecq::lossless_weights{}});
  const std::vector<float> plain = logits_of(opened(folder / "plain"), tokens, 16);
  EXPECT_TRUE(same_bits(logits_of(opened(folder / "plain", weight_mode::block), tokens, 16), plain));
  EXPECT_TRUE(same_bits(logits_of(opened(packed), tokens, 16), plain));
  const llama::model block = opened(packed, weight_mode::block);
  EXPECT_GT(block.memory().coded, 0U);
  EXPECT_GT(block.memory().buffers, 0U);
  EXPECT_TRUE(same_bits(logits_of(block, tokens, 16), plain));
  EXPECT_TRUE(same_bits(logits_of(block, tokens, 1), plain));  // two buffers in turn
}

TEST_F(LlamaForward, BlocksOfFewBitsGiveTheBitsOfTheirDecodedWeights) {
  tiny_model model;
  // Five layers do not fit the two buffers, and each comes to lie in either.
  for (std::size_t layer = tiny_model::layers; layer < 5; ++layer) {
    for (const auto& tensor : tiny_model().tensors) {
      if (!tensor.name.starts_with("model.layers.1.")) continue;
      model.tensors.push_back(tensor);
      model.tensors.back().name[13] = static_cast<char>('0' + layer);
    }
  }
  model.config["num_hidden_layers"] = "5";
  const auto packed = compressed(model, {.method = ecq::entquant{.target_bits = 3.0}});
  const std::vector<float> plain = logits_of(opened(folder / "plain"), tokens, 16);
  const std::vector<float> dense = logits_of(opened(packed), tokens, 16);
  EXPECT_FALSE(same_bits(dense, plain));
  const llama::model block = opened(packed, weight_mode::block);
  EXPECT_LT(block.memory().coded, opened(packed).memory().total() / 4);
  for (const std::size_t at_a_time : {1U, 16U}) EXPECT_TRUE(same_bits(logits_of(block, tokens, at_a_time), dense));
}

TEST_F(LlamaForward, FusedIsThatOfDecodedWeightsHoweverMatricesShareBlocks) {
  ecq::compress_options all{.method = ecq::entquant{.target_bits = 4.0}}, plain_keys = all, own_values = all;
  plain_keys.selection.exclude = {"*k_proj*", "*gate_proj*"};
  own_values.selection.block_pattern = R"(layers\.[0-9]+\.(self_attn\.v_proj|mlp\.up_proj)?)";
  for (const auto& how : {all, plain_keys, own_values}) {
    const auto packed = compressed(tiny_model(), how);
    const std::vector<float> dense = logits_of(opened(packed), tokens, 16);
    const std::vector<float> fused = logits_of(opened(packed, weight_mode::fused), tokens, 16);
    expect_close(fused, dense, 0.02F);  // fused weights are not rounded to BF16
  }
}

TEST_F(LlamaForward, WiderWeightsAreRounded) {
  tiny_model model;
  model.write(folder / "narrow");
  model.widen();
  model.write(folder / "wide");
  EXPECT_TRUE(
      same_bits(logits_of(opened(folder / "wide"), tokens, 16), logits_of(opened(folder / "narrow"), tokens, 16)));
  const auto packed = compressed(model, {.method = ecq::lossless_weights{}});
  for (const weight_mode mode : {weight_mode::dense, weight_mode::block}) {
    EXPECT_TRUE(
        same_bits(logits_of(opened(packed, mode), tokens, 16), logits_of(opened(folder / "narrow"), tokens, 16)));
  }
}

TEST_F(LlamaForward, RefusesWhatDoesNotFit) {
  tiny_model().write(folder.path());
  const llama::model model = opened(folder.path());
  llama::thread_pool pool(1);
  llama::forward_pass pass(model, pool);
  llama::kv_cache cache(model.config());
  const auto fails = [&](const std::vector<std::uint32_t>& given) {
    const auto outcome = pass.run(given, cache);
    return !outcome && outcome.error().code() == errc::invalid_argument && cache.length() == 0;
  };
  EXPECT_TRUE(fails({}));
  EXPECT_TRUE(fails({1, tiny_model::vocabulary}));
  EXPECT_TRUE(fails(some_tokens(tiny_model::positions + 1)));
  ASSERT_TRUE(pass.run(tokens, cache));
  const auto full = pass.run(some_tokens(1), cache);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message(), "49 tokens, but the context has only 48");
}

}  // namespace
