// A whole model with channels that are far louder than the others, as in large models. Error feedback must not lose to
// EntQuant there.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../examples/llama/comparison.hpp"
#include "../../examples/llama/forward.hpp"
#include "../../examples/llama/int8_feedback.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/text_calibration.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/format/bf16.hpp"
#include "llama/tiny_model.hpp"
#include "support/weights.hpp"

namespace {

using llama_test::tiny_model;

/// Returns a model in which the weights of the norms make three channels of each input of a layer 20 to 60 times as
/// loud as the others.
tiny_model model_with_outliers() {
  tiny_model made;
  for (std::size_t layer = 0; layer < tiny_model::layers; ++layer) {
    for (const char* const norm : {"input_layernorm", "post_attention_layernorm"}) {
      const std::string name = "model.layers." + std::to_string(layer) + "." + norm + ".weight";
      std::vector<float>& values = made.values[name];
      for (std::size_t loud = 1; loud <= 3; ++loud) values[17 * loud] = 20 * static_cast<float>(loud);
      made.tensor_named(name).bytes = ecq_test::bytes_of<ecq::bf16>(values);
    }
  }
  return made;
}

/// Returns random tokens.
std::vector<std::uint32_t> random_tokens(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> tokens;
  for (const float value : ecq_test::gaussian(count, 1, seed, 1e6F)) {
    tokens.push_back(static_cast<std::uint32_t>(value + 1e9F) % tiny_model::vocabulary);
  }
  return tokens;
}

class LlamaOutlierFigures : public testing::TestWithParam<double> {
 protected:
  /// Returns the divergence of the predictions of folder `name` from the original's, for texts that no calibration has
  /// seen.
  double divergence_of(const llama::model& original, const std::string& name) {
    const auto other = llama::model::open(folder / name, llama::weight_mode::dense, ecq::cpu{});
    EXPECT_TRUE(other) << other.error().to_string();
    llama::forward_pass before(original, pool), after(*other, pool);
    const auto measured =
        llama::compare_predictions({before, original.config(), "before"}, {after, other->config(), "after"}, pool,
                                   original.config(), random_tokens(600, 2), {.window = 40});
    EXPECT_TRUE(measured) << measured.error().to_string();
    return measured->divergence;
  }

  void compress(const std::string& name, const ecq::any_method& method) {
    const auto report = ecq::compress_folder(ecq::cpu{}, folder / "model", folder / name, {.method = method});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_NEAR(report->bits_per_weight, GetParam(), 0.03) << name;
  }

  ecq_test::temporary_folder folder;
  llama::thread_pool pool{2};
};

TEST_P(LlamaOutlierFigures, LosesNoMoreByFeedbackThanByEntQuant) {
  model_with_outliers().write(folder / "model");
  const auto original = llama::model::open(folder / "model", llama::weight_mode::dense, ecq::cpu{});
  ASSERT_TRUE(original) << original.error().to_string();
  std::vector<std::vector<std::uint32_t>> texts;
  for (std::size_t text = 0; text < 40; ++text) texts.push_back(random_tokens(40, 100 + text));
  compress("plain", ecq::any_method(ecq::dtype::int8, ecq::entquant{.target_bits = GetParam()}));
  compress("fed", ecq::any_method(llama::int8_feedback(
                      std::make_shared<llama::text_calibration>(*original, pool, texts), GetParam())));
  EXPECT_LE(divergence_of(*original, "fed"), divergence_of(*original, "plain"));
}

INSTANTIATE_TEST_SUITE_P(Rates, LlamaOutlierFigures, testing::Values(2.1, 3.0), [](const auto& instance) {
  return "Bits" + std::to_string(static_cast<int>(10 * instance.param + 0.5));
});

}  // namespace
