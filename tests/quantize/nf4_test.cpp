#include "ecq/quantize/nf4.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;
using ecq::nf4;

TEST(Nf4, EveryWeightGetsTheNearestValueOfItsBlock) {
  const auto weights = ecq_test::row_varying(7, 75);
  const auto rounded = nf4{}.apply(cpu{}, matrix_view<const float>(weights.data(), 7, 75));
  ASSERT_TRUE(rounded);
  for (std::size_t first = 0; first < weights.size(); first += 64) {
    const std::size_t last = std::min(weights.size(), first + 64);
    float most = 0;
    for (std::size_t index = first; index < last; ++index) most = std::max(most, std::fabs(weights[index]));
    for (std::size_t index = first; index < last; ++index) {
      EXPECT_EQ(rounded->weights[index], nf4::values[rounded->codes[index]] * most);
      const float distance = std::fabs(rounded->weights[index] - weights[index]);
      for (const float value : nf4::values) {
        const double other = std::fabs(static_cast<double>(value) * most - weights[index]);
        EXPECT_LE(distance, other + 1e-7 * most);  // the float product is rounded
      }
    }
  }
  EXPECT_DOUBLE_EQ(rounded->bits_per_weight, 4 + 32.0 * 9 / 525);
}

TEST(Nf4, ValuesMapToThemselves) {
  std::vector<float> weights(64);
  for (std::size_t index = 0; index < 64; ++index) weights[index] = nf4::values[index % 16] * 0.5F;
  const auto rounded = nf4{}.apply(cpu{}, matrix_view<const float>(weights.data(), 4, 16));
  EXPECT_EQ(rounded->weights, weights);
  for (std::size_t index = 0; index < 64; ++index) EXPECT_EQ(rounded->codes[index], index % 16);
}

TEST(Nf4, Dynamic8BitValues) {
  const std::array<float, 256> values = ecq::detail::dynamic_8bit_values();
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
  EXPECT_EQ(values.back(), 1.0F);
  EXPECT_EQ(values[127], 0.0F);
  EXPECT_FLOAT_EQ(values[254], 0.99296875F);
  EXPECT_FLOAT_EQ(values.front(), -0.99296875F);
  EXPECT_FLOAT_EQ(values[128], 0.55e-6F);
}

TEST(Nf4, DoubleQuantizationKeepsCodesAndMovesScalesALittle) {
  const auto weights = ecq_test::gaussian(64, 640);
  const matrix_view<const float> view(weights.data(), 64, 640);
  const auto plain = nf4{}.apply(cpu{}, view);
  const auto twice = nf4{.double_quantization = true}.apply(cpu{}, view);
  EXPECT_EQ(plain->codes, twice->codes);
  EXPECT_NE(plain->weights, twice->weights);
  for (std::size_t index = 0; index < weights.size(); ++index) {
    EXPECT_NEAR(twice->weights[index], plain->weights[index], 0.03F * std::fabs(plain->weights[index]));
  }
  EXPECT_DOUBLE_EQ(twice->bits_per_weight, 4 + (8.0 * 640 + 32.0 * 3 + 32.0) / 40960);
}

}  // namespace
