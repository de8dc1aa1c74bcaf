#include "ecq/format/fp32.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using ecq::fp32;

TEST(Fp32, IsTheFloatItself) {
  for (std::uint64_t word = 0; word <= 0xffffffffU; word += 65537) {
    const auto code = static_cast<std::uint32_t>(word);
    const float value = std::bit_cast<float>(code);
    EXPECT_EQ(fp32::is_finite(code), std::isfinite(value));
    if (std::isnan(value)) continue;
    EXPECT_EQ(fp32::encode(value), code);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(fp32::decode(code)), code);
  }
  EXPECT_EQ(fp32::largest, (std::numeric_limits<float>::max)());
  static_assert(fp32(1.5F) == 1.5F);
}

}  // namespace
