#include "ecq/quantize/stored_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"

namespace {

using ecq::bf16;

template <class Format>
void expect_bounds(float most_negative_code) {
  const float largest = ecq::largest_scale<Format>();
  EXPECT_TRUE(std::isfinite(Format::largest * largest));
  EXPECT_TRUE(std::isfinite(most_negative_code * largest));
  EXPECT_EQ(ecq::stored_scale<Format>((std::numeric_limits<float>::max)()), largest);
  EXPECT_EQ(ecq::stored_scale<Format>(std::numeric_limits<float>::infinity()), largest);
  EXPECT_TRUE(std::isnormal(1.0F / largest));
  EXPECT_EQ(ecq::stored_scale<Format>(1e-45F), 0x1p-126F);
}

TEST(StoredScale, NeitherScaleNorReciprocalNorCodeOverflows) {
  expect_bounds<ecq::fp8_e4m3>(-448.0F);
  expect_bounds<ecq::fp8_e5m2>(-57344.0F);
  expect_bounds<ecq::int8>(-128.0F);
}

TEST(StoredScale, IsTheNearestBf16) {
  EXPECT_EQ(ecq::stored_scale<ecq::int8>(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(ecq::stored_scale<ecq::int8>(1.0F + 0x1.8p-8F), 1.0F + 0x1p-7F);
  EXPECT_EQ(ecq::stored_scale<ecq::int8>(0.0F), 1.0F);
  EXPECT_EQ(ecq::stored_scale<ecq::int8>(-3.0F), 1.0F);
  EXPECT_EQ(ecq::stored_scale<ecq::int8>(std::numeric_limits<float>::quiet_NaN()), 1.0F);
}

}  // namespace
