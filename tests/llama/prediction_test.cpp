// Loss of a token according to logits, and divergence of logits from others.

#include "../../examples/llama/prediction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/weights.hpp"

namespace {

TEST(LlamaPrediction, LossIsThatOfSoftmax) {
  const std::vector<float> odd{0, std::log(3.0F)};  // 1/4, 3/4
  EXPECT_NEAR(llama::loss_of(odd, 0), std::log(4.0), 1e-7);
  EXPECT_NEAR(llama::loss_of(odd, 1), std::log(4.0 / 3), 1e-7);
  const std::vector<float> large{1e30F, -1e30F};
  EXPECT_EQ(llama::loss_of(large, 0), 0);
}

TEST(LlamaPrediction, DivergenceIsZeroForEqualPredictionsAndKnownForTwo) {
  const std::vector<float> same{1, 2, 3}, shifted{11, 12, 13};
  EXPECT_EQ(llama::divergence_of(same, same), 0);
  EXPECT_NEAR(llama::divergence_of(same, shifted), 0, 1e-12);
  const std::vector<float> even{0, 0}, odd{0, std::log(3.0F)};  // 1/2, 1/2 and 1/4, 3/4
  EXPECT_NEAR(llama::divergence_of(even, odd), 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3.0), 1e-7);
  EXPECT_NEAR(llama::divergence_of(odd, even), 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
}

TEST(LlamaPrediction, DivergenceIsNeverNegative) {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const auto before = ecq_test::gaussian(1, 50, seed, 3.0F);
    auto after = before;
    after[seed % 50] += std::ldexp(1.0F, -static_cast<int>(seed % 30));
    EXPECT_GE(llama::divergence_of(before, after), 0);
  }
}

}  // namespace
