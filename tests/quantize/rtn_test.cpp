#include "ecq/quantize/rtn.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;
using ecq::rtn;

TEST(Rtn, WeightsAreCodesTimesAStoredScale) {
  const auto weights = ecq_test::student_t4(11, 65);
  for (int bits = 2; bits <= 8; ++bits) {
    const auto rounded = rtn{.bits = bits}.apply(cpu{}, matrix_view<const float>(weights.data(), 11, 65));
    ASSERT_TRUE(rounded);
    EXPECT_DOUBLE_EQ(rounded->bits_per_weight, bits + 16.0 / 65);
    for (std::size_t row = 0; row < 11; ++row) {
      float scale = 0;
      for (std::size_t column = 0; column < 65; ++column) {
        const int code = static_cast<std::int8_t>(rounded->codes[row * 65 + column]);
        EXPECT_GE(code, -(1 << (bits - 1)));
        EXPECT_LT(code, 1 << (bits - 1));
        const float weight = rounded->weights[row * 65 + column];
        if (code == 0) {
          EXPECT_EQ(weight, 0.0F);
        } else {
          if (scale == 0.0F) scale = weight / static_cast<float>(code);
          EXPECT_EQ(weight, scale * static_cast<float>(code));
        }
      }
      EXPECT_EQ(ecq::bf16(scale), scale) << "not a BF16";
    }
  }
}

TEST(Rtn, ByHand) {
  const std::vector<float> weights = {7, -7, 3.5F, 2.5F, -0.4F, 0, 0, 0, 0, 0};
  const auto rounded = rtn{.bits = 4}.apply(cpu{}, matrix_view<const float>(weights.data(), 2, 5));
  EXPECT_EQ(rounded->weights, (std::vector<float>{7, -7, 4, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rounded->codes, (std::vector<std::uint8_t>{7, 249, 4, 2, 0, 0, 0, 0, 0, 0}));
}

TEST(Rtn, LargestWeightsStayFinite) {
  constexpr float largest = (std::numeric_limits<float>::max)();
  const std::vector<float> weights = {largest, -largest, 3.4e38F, 1e37F};
  for (int bits = 2; bits <= 8; ++bits) {
    const auto rounded = rtn{.bits = bits}.apply(cpu{}, matrix_view<const float>(weights.data(), 1, 4));
    ASSERT_TRUE(rounded);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(std::abs(rounded->weights[i]), largest) << bits;
      EXPECT_NEAR(rounded->weights[i] / weights[i], 1, 0.01) << bits;
    }
  }
}

TEST(Rtn, BitsOutOfRange) {
  for (const int bits : {-1, 0, 1, 9}) {
    const auto rounded = rtn{.bits = bits}.apply(cpu{}, {});
    ASSERT_FALSE(rounded);
    EXPECT_EQ(rounded.error().code(), ecq::errc::invalid_argument);
  }
}

}  // namespace
