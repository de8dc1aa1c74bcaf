// Quality that a model loses when its weights are replaced: nothing if they are the same, more at lower rates.

#include "../../examples/llama/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../examples/llama/forward.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/model_config.hpp"
#include "../../examples/llama/perplexity.hpp"
#include "../../examples/llama/text_windows.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "llama/reference_decoder.hpp"
#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama::prediction_difference;
using llama::weight_mode;
using llama_test::some_tokens;
using llama_test::tiny_model;

class LlamaComparison : public testing::Test {
 protected:
  void SetUp() override { tiny_model().write(folder / "model"); }

  void pack(const std::string& name, const ecq::any_method& method) {
    ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "model", folder / name, {.method = method}));
  }

  ecq::result<prediction_difference> compared(const std::string& name,
                                              const llama::window_options& how = {.window = 20},
                                              weight_mode mode = weight_mode::dense, unsigned threads = 2,
                                              const std::vector<std::uint32_t>& tokens = some_tokens(70)) {
    ECQ_TRY(before, llama::model::open(folder / "model", mode, ecq::cpu{}));
    ECQ_TRY(after, llama::model::open(folder / name, mode, ecq::cpu{}));
    llama::thread_pool pool(threads);
    llama::forward_pass of_before(before, pool), of_after(after, pool);
    return llama::compare_predictions({of_before, before.config(), "before"}, {of_after, after.config(), "after"}, pool,
                                      before.config(), tokens, how);
  }

  ecq::result<ecq::weight_error> weights_compared(const std::string& name) {
    ECQ_TRY(before, llama::model::open(folder / "model", weight_mode::dense, ecq::cpu{}));
    ECQ_TRY(after, llama::model::open(folder / name, weight_mode::fused, ecq::cpu{}));
    return llama::compare_layers(ecq::cpu{}, before, after);
  }

  ecq_test::temporary_folder folder;
};

TEST_F(LlamaComparison, FindsNoDifferenceWhereThereIsNone) {
  pack("lossless", ecq::lossless_weights{});
  for (const char* const name : {"model", "lossless"}) {
    const auto same = compared(name);
    ASSERT_TRUE(same) << same.error().to_string();
    EXPECT_EQ(same->divergence, 0);
    EXPECT_EQ(same->largest_divergence, 0);
    EXPECT_EQ(same->loss, same->original_loss);
    EXPECT_EQ(same->windows, 3U);
    EXPECT_EQ(same->predictions, 60U);
    const auto error = weights_compared(name);
    ASSERT_TRUE(error) << error.error().to_string();
    EXPECT_EQ(error->squared_error, 0);
    EXPECT_EQ(error->count, 2 * (2 * 48 * 64 + 2 * 24 * 64 + 3 * 88 * 64));
  }
}

TEST_F(LlamaComparison, GrowsAsBitsDwindle) {
  pack("4", ecq::entquant{.target_bits = 4.0});
  pack("2", ecq::entquant{.target_bits = 2.0});
  const auto four = compared("4"), two = compared("2");
  ASSERT_TRUE(four && two);
  EXPECT_GT(four->divergence, 0);
  EXPECT_GT(two->divergence, 2 * four->divergence);
  EXPECT_GE(two->largest_divergence, two->divergence);
  EXPECT_EQ(two->original_loss, four->original_loss);
  EXPECT_GT(weights_compared("4")->sqnr_db(), weights_compared("2")->sqnr_db() + 6);
}

TEST_F(LlamaComparison, IsThatOfTheReference) {
  tiny_model changed;
  changed.scale_row("model.layers.1.mlp.down_proj.weight", 5, 3);
  changed.write(folder / "changed");
  const auto seen = compared("changed", {.window = 11});
  ASSERT_TRUE(seen) << seen.error().to_string();
  const auto text = some_tokens(70);
  double divergence = 0, largest = 0;
  for (std::size_t begin = 0; begin + 12 <= text.size(); begin += 12) {
    const std::vector<std::uint32_t> window(&text[begin], &text[begin + 11]);
    const auto before = llama_test::reference_decoder(tiny_model()).logits(window);
    const auto after = llama_test::reference_decoder(changed).logits(window);
    double of_window = 0;
    for (std::size_t at = 0; at < 11; ++at) {
      double sum_before = 0, sum_after = 0;
      for (const double logit : before[at]) sum_before += std::exp(logit);
      for (const double logit : after[at]) sum_after += std::exp(logit);
      for (std::size_t token = 0; token < before[at].size(); ++token) {
        const double log_p = before[at][token] - std::log(sum_before);
        of_window += std::exp(log_p) * (log_p - after[at][token] + std::log(sum_after));
      }
    }
    divergence += of_window / 55;
    largest = (std::max)(largest, of_window / 11);
  }
  EXPECT_EQ(seen->windows, 5U);
  EXPECT_GT(divergence, 1e-3);
  EXPECT_NEAR(seen->divergence / divergence, 1, 1e-3);
  EXPECT_NEAR(seen->largest_divergence / largest, 1, 1e-3);
}

TEST_F(LlamaComparison, HasTheLossesOfPerplexityForAnyModeAndThreads) {
  pack("3", ecq::entquant{.target_bits = 3.0});
  const llama::window_options how{.window = 20, .windows = 2};
  const auto one = compared("3", how, weight_mode::dense, 1);
  const auto block = compared("3", how, weight_mode::block, 3);
  const auto fused = compared("3", how, weight_mode::fused, 3);
  ASSERT_TRUE(one && block && fused);
  EXPECT_EQ(one->divergence, block->divergence);
  EXPECT_EQ(one->loss, block->loss);
  EXPECT_NEAR(fused->divergence / one->divergence, 1, 0.1);  // fused weights are not rounded to BF16
  for (const char* const name : {"model", "3"}) {
    const auto model = llama::model::open(folder / name, weight_mode::dense, ecq::cpu{});
    ASSERT_TRUE(model);
    llama::thread_pool pool(1);
    llama::forward_pass pass(*model, pool);
    const auto alone = llama::measure_perplexity(pass, pool, model->config(), some_tokens(70), how);
    ASSERT_TRUE(alone);
    EXPECT_EQ(alone->loss, name[0] == '3' ? one->loss : one->original_loss);
  }
}

TEST_F(LlamaComparison, RefusesOtherShapes) {
  const auto message = [](const llama::model_config& other) {
    const llama::model_config original{.hidden = 64, .layers = 2, .head_width = 8, .vocabulary = 271};
    const auto outcome = llama::check_same_shape(original, other);
    return outcome ? "" : outcome.error().to_string();
  };
  EXPECT_EQ(message({.hidden = 64, .layers = 2, .head_width = 8, .vocabulary = 271}), "");
  EXPECT_NE(message({.hidden = 64, .layers = 2, .head_width = 8, .vocabulary = 270})
                .find("vocab_size is 270, but that of the original is 271"),
            std::string::npos);
  EXPECT_NE(message({.hidden = 64, .layers = 3, .head_width = 8, .vocabulary = 271}).find("num_hidden_layers"),
            std::string::npos);
  EXPECT_NE(message({.hidden = 64, .layers = 2, .head_width = 6, .vocabulary = 271}).find("head_dim"),
            std::string::npos);
  EXPECT_NE(message({.hidden = 64, .layers = 2, .head_width = 8, .vocabulary = 271, .mixture = {4, 2}})
                .find("num_local_experts is 4, but that of the original is 0"),
            std::string::npos);
}

TEST_F(LlamaComparison, RefusesOtherVocabularies) {
  tiny_model other;
  other.config["vocab_size"] = "100";
  for (const char* const name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    other.tensor_named(name).shape[0] = 100;
    other.tensor_named(name).bytes.resize(100 * tiny_model::hidden * sizeof(ecq::bf16));
  }
  other.write(folder / "other");
  EXPECT_EQ(compared("other").error().code(), errc::invalid_argument);
  EXPECT_EQ(weights_compared("other").error().code(), errc::invalid_argument);
}

TEST_F(LlamaComparison, NamesWhatFails) {
  EXPECT_EQ(compared("model", {.window = 49}).error().code(), errc::invalid_argument);
  EXPECT_EQ(compared("model", {}, weight_mode::dense, 1, some_tokens(20)).error().code(), errc::invalid_argument);
  tiny_model damaged;
  damaged.set_weight("lm_head.weight", 3, 4, std::nanf(""));
  damaged.write(folder / "damaged");
  const auto failed = compared("damaged");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), errc::non_finite);
  EXPECT_NE(failed.error().to_string().find("window 0: 'after'"), std::string::npos) << failed.error().to_string();
}

}  // namespace
