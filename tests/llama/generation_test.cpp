// Continuing text, measuring loss, and choosing tokens.

#include "../../examples/llama/generation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../../examples/llama/forward.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/perplexity.hpp"
#include "../../examples/llama/sampling.hpp"
#include "../../examples/llama/text_windows.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "llama/reference_decoder.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama_test::some_tokens;
using llama_test::tiny_model;
using tokens = std::vector<std::uint32_t>;

class LlamaGeneration : public testing::Test {
 protected:
  void SetUp() override { tiny_model().write(folder / "model"); }

  ecq::result<llama::generation> generated(const tokens& prompt, const llama::generation_options& how,
                                           const std::string& name = "model",
                                           llama::weight_mode mode = llama::weight_mode::dense) {
    ECQ_TRY(model, llama::model::open(folder / name, mode, ecq::cpu{}));
    llama::forward_pass pass(model, pool);
    return llama::generate(pass, model.config(), prompt, how);
  }

  ecq::result<llama::perplexity_result> measured(const tokens& text, const llama::window_options& how,
                                                 const std::string& name = "model",
                                                 llama::weight_mode mode = llama::weight_mode::dense,
                                                 ecq::activation_type activations = ecq::activation_type::fp32) {
    ECQ_TRY(model, llama::model::open(folder / name, mode, ecq::cpu{}, {}, activations));
    llama::forward_pass pass(model, pool);
    return llama::measure_perplexity(pass, pool, model.config(), text, how);
  }

  ecq_test::temporary_folder folder;
  llama::thread_pool pool{2};
};

TEST_F(LlamaGeneration, IsGreedyByTheReference) {
  const auto made = generated(some_tokens(3), {.tokens = 20});
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_EQ(made->tokens.size(), 20U);
  EXPECT_EQ(made->stop, "tokens");
  tokens text = some_tokens(3);
  const tiny_model weights;
  for (const std::uint32_t token : made->tokens) {
    const auto logits = llama_test::reference_decoder(weights).logits(text).back();
    EXPECT_EQ(token, static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    text.push_back(token);
  }
}

TEST_F(LlamaGeneration, ModesGiveTheSameTokensAndLosses) {
  const tokens text = some_tokens(3 * 33);
  const llama::window_options windows{.window = 32};
  for (const ecq::any_method& method :
       {ecq::any_method(ecq::lossless_weights{}), ecq::any_method(ecq::entquant{.target_bits = 3.0})}) {
    std::filesystem::remove_all(folder / "packed");
    ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "model", folder / "packed", {.method = method}));
    for (const double temperature : {0.0, 1.5}) {
      const llama::generation_options how{.tokens = 30, .temperature = temperature, .seed = 7};
      const auto dense = generated(some_tokens(2), how, "packed");
      const auto block = generated(some_tokens(2), how, "packed", llama::weight_mode::block);
      ASSERT_TRUE(dense && block);
      EXPECT_EQ(dense->tokens, block->tokens);
    }
    const auto dense = measured(text, windows, "packed");
    const auto block = measured(text, windows, "packed", llama::weight_mode::block);
    ASSERT_TRUE(dense && block);
    EXPECT_EQ(dense->loss, block->loss);
    // Fused products use coded weights as they are; decoding to BF16 rounds the product of a code and its scale.
    const auto fused = measured(text, windows, "packed", llama::weight_mode::fused);
    ASSERT_TRUE(fused) << fused.error().to_string();
    EXPECT_NEAR(fused->loss, dense->loss, (*method.get())->lossless() ? 1e-5 : 0.02);
    const auto rounded = measured(text, windows, "packed", llama::weight_mode::fused, ecq::activation_type::bf16);
    ASSERT_TRUE(rounded) << rounded.error().to_string();
    EXPECT_NE(rounded->loss, fused->loss);
    EXPECT_NEAR(rounded->loss, fused->loss, 0.01);
    const auto quantised = measured(text, windows, "packed", llama::weight_mode::fused, ecq::activation_type::int8);
    ASSERT_TRUE(quantised) << quantised.error().to_string();
    EXPECT_NE(quantised->loss, fused->loss);
    EXPECT_NEAR(quantised->loss, fused->loss, 0.05);
  }
  EXPECT_EQ(measured(text, windows, "packed", llama::weight_mode::block, ecq::activation_type::int8).error().code(),
            ecq::errc::invalid_argument);
}

TEST_F(LlamaGeneration, LossIsThatOfTheReference) {
  const tokens text = some_tokens(25);
  const auto loss = measured(text, {.window = 11});
  ASSERT_TRUE(loss) << loss.error().to_string();
  EXPECT_EQ(loss->windows, 2U);  // and a token is left over
  EXPECT_EQ(loss->predictions, 22U);
  const tiny_model weights;
  double sum = 0;
  for (const std::size_t begin : {0U, 12U}) {
    const auto logits = llama_test::reference_decoder(weights).logits({&text[begin], &text[begin + 11]});
    for (std::size_t at = 0; at < 11; ++at) {
      double total = 0;
      for (const double logit : logits[at]) total += std::exp(logit);
      sum += std::log(total) - logits[at][text[begin + at + 1]];
    }
  }
  EXPECT_NEAR(loss->loss, sum / 22, 1e-5);
  EXPECT_EQ(measured(text, {.window = 11, .windows = 1})->windows, 1U);
}

TEST_F(LlamaGeneration, StopsAtTheEndOfContextAndText) {
  const auto full = generated(some_tokens(tiny_model::positions), {.tokens = 5});
  ASSERT_TRUE(full) << full.error().to_string();
  EXPECT_EQ(full->stop, "context");
  EXPECT_EQ(full->tokens.size(), 1U);
  const auto first = generated(some_tokens(3), {.tokens = 9});
  ASSERT_TRUE(first);
  tokens before = first->tokens;  // up to the last token that occurs once
  while (std::count(before.begin(), before.end(), before.back()) != 1) before.pop_back();
  ASSERT_GT(before.size(), 1U);
  tiny_model model;
  model.config["eos_token_id"] = std::to_string(before.back());
  model.write(folder / "model");
  const auto made = generated(some_tokens(3), {.tokens = 9});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->stop, "end");
  before.pop_back();
  EXPECT_EQ(made->tokens, before);
}

TEST_F(LlamaGeneration, RefusesWhatDoesNotFit) {
  EXPECT_EQ(generated({}, {}).error().message(), "prompt has no tokens");
  EXPECT_EQ(generated(some_tokens(49), {}).error().message(), "prompt has 49 tokens, but the context has only 48");
  EXPECT_EQ(generated({tiny_model::vocabulary}, {}).error().code(), errc::invalid_argument);
  EXPECT_EQ(measured(some_tokens(99), {.window = 49}).error().code(), errc::invalid_argument);
  EXPECT_EQ(measured(some_tokens(99), {.window = 0}).error().code(), errc::invalid_argument);
  EXPECT_EQ(measured(some_tokens(11), {.window = 11}).error().message(), "text has 11 tokens, but one window takes 12");
  EXPECT_EQ(measured({1, 2, 300}, {.window = 1}).error().message(),
            "token 300 at position 2 of the text is outside the vocabulary of 271");
}

TEST_F(LlamaGeneration, NanWeightsAreNamed) {
  tiny_model model;
  auto& norm = model.tensor_named("model.norm.weight");
  norm.bytes.replace(0, 2, "\xFF\x7F");
  model.write(folder / "model");
  EXPECT_EQ(generated(some_tokens(2), {}).error().to_string(), "non-finite weight: the logit of token 0 is NaN");
  EXPECT_EQ(measured(some_tokens(20), {.window = 5}).error().message(), "window 0: the logit of token 0 is NaN");
}

TEST(LlamaSampler, IsGreedyWithoutTemperature) {
  llama::sampler greedy(0, 1);
  EXPECT_EQ(*greedy.next(std::vector<float>{1, 3, 3, 2}), 1U);
  EXPECT_EQ(greedy.next(std::vector<float>{1, std::numeric_limits<float>::infinity()}).error().message(),
            "the logit of token 1 is infinite");
}

TEST(LlamaSampler, ChoosesByProbability) {
  const std::vector<float> logits{0.0F, std::log(3.0F), -1000.0F, std::log(4.0F)};  // 1 : 3 : 0 : 4
  std::vector<double> seen(4);
  llama::sampler at_random(1.0, 3);
  for (int draw = 0; draw < 8000; ++draw) ++seen[*at_random.next(logits)];
  EXPECT_NEAR(seen[0], 1000, 100);
  EXPECT_NEAR(seen[1], 3000, 150);
  EXPECT_EQ(seen[2], 0);
  EXPECT_NEAR(seen[3], 4000, 150);
  llama::sampler one(0.5, 9), other(0.5, 9);
  for (int draw = 0; draw < 50; ++draw) EXPECT_EQ(*one.next(logits), *other.next(logits));
}

TEST(LlamaTokens, FilesOf16BitsAreRead) {
  const ecq_test::temporary_folder folder;
  ecq_test::write_file(folder / "tokens", std::string("\x01\x02\xFF\x00", 4));
  EXPECT_EQ(*llama::read_tokens_u16(folder / "tokens"), (tokens{0x201, 0xFF}));
  ecq_test::write_file(folder / "tokens", "abc");
  EXPECT_EQ(llama::read_tokens_u16(folder / "tokens").error().code(), errc::truncated);
  EXPECT_EQ(llama::read_tokens_u16(folder / "none").error().code(), errc::not_found);
}

}  // namespace
