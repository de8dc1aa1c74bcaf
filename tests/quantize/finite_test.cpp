#include "ecq/quantize/finite.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ecq::check_finite;

TEST(CheckFinite, TakesEveryFiniteWeight) {
  const float largest = (std::numeric_limits<float>::max)();
  EXPECT_TRUE(check_finite({}, 0));
  EXPECT_TRUE(check_finite(std::vector<float>{0.0F, -0.0F, largest, -largest, 1e-45F}, 3));
}

TEST(CheckFinite, NamesTheFirstOther) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::bit_cast<float>(std::uint32_t{0xff800001});
  for (std::size_t column = 0; column < 40; ++column) {
    std::vector<float> weights(40, 1.0F);
    weights.back() = infinity;
    weights[column] = nan;
    const auto found = check_finite(weights, 12);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), ecq::errc::non_finite);
    EXPECT_EQ(found.error().message(), "weight at row 12, column " + std::to_string(column) + " is NaN");
  }
  const auto found = check_finite(std::vector<float>{0.0F, -infinity}, 5);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "weight at row 5, column 1 is infinite");
}

}  // namespace
