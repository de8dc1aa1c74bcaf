#include "ecq/format/nearest_finite.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"

namespace {

using ecq::bf16;
using ecq::fp16;
using ecq::nearest_finite;

constexpr float most = std::numeric_limits<float>::max();

TEST(NearestFinite, RoundsAsTheElementDoes) {
  for (const float weight : {0.0F, 0.1F, -3.14159F, 65504.0F, -65504.0F, 1e-40F, 0x1.008p0F, 0x1.018p0F}) {
    EXPECT_EQ(nearest_finite<float>(weight), weight);
    EXPECT_EQ(nearest_finite<bf16>(weight).bits, bf16(weight).bits) << weight;
    EXPECT_EQ(nearest_finite<fp16>(weight).bits, fp16(weight).bits) << weight;
  }
  EXPECT_TRUE(std::signbit(static_cast<float>(nearest_finite<fp16>(-0.0F))));
}

// FP16 becomes infinite from 65520 on, and BF16 half a step beyond its largest number.
TEST(NearestFinite, NeverBecomesInfinite) {
  for (const float weight : {65504.0F, 65519.0F, 65520.0F, 1e5F, 0x1.FEp127F, 0x1.FFp127F, most}) {
    EXPECT_EQ(static_cast<float>(nearest_finite<fp16>(weight)), 65504.0F) << weight;
    EXPECT_EQ(static_cast<float>(nearest_finite<fp16>(-weight)), -65504.0F) << weight;
  }
  for (const float weight : {0x1.FEp127F, 0x1.FFp127F, most}) {
    EXPECT_EQ(static_cast<float>(nearest_finite<bf16>(weight)), 0x1.FEp127F);
    EXPECT_EQ(static_cast<float>(nearest_finite<bf16>(-weight)), -0x1.FEp127F);
    EXPECT_EQ(nearest_finite<float>(-weight), -weight);
  }
}

}  // namespace
