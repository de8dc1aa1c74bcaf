#include "ecq/base/lanes.hpp"

#include <gtest/gtest.h>

namespace {

TEST(Lanes, ThatHaveASymbolAreTheLowestOnes) {
  for (std::uint32_t left = 0; left <= 2 * ecq::group_symbols; ++left) {
    for (std::uint32_t round = 0; round < ecq::rounds_per_group; ++round) {
      std::uint32_t expected = 0;
      while (expected < ecq::lane_count && expected * ecq::rounds_per_group + round < left) ++expected;
      EXPECT_EQ(ecq::lanes_in_step(left, round), expected) << left << ' ' << round;
    }
  }
}

}  // namespace
