#include "ecq/matmul/weight_tile.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using ecq::detail::block_of_scale;
using ecq::detail::column_range;
using ecq::detail::scale_run;

// Divides columns, from any to any other, into runs that share a scale.
TEST(ScaleRun, DividesColumnsByScales) {
  for (const std::size_t of_scale : {1U, 3U, 5U, 12U, 20U}) {
    for (std::size_t first = 0; first < 12; ++first) {
      for (std::size_t end = first; end <= 12; ++end) {
        std::size_t at = first;
        for (scale_run run({first, end - first, of_scale}); run.is_there(); run.advance()) {
          EXPECT_EQ(run.begin, at);
          EXPECT_EQ(run.is_first(), at == first);
          ASSERT_GT(run.end, run.begin);
          at = run.end;
          EXPECT_EQ(run.number, run.begin / of_scale);
          EXPECT_EQ(run.number, (at - 1) / of_scale);
          EXPECT_EQ(run.second, run.number);
          EXPECT_TRUE(at == end || at % of_scale == 0);
        }
        EXPECT_EQ(at, end);
      }
    }
  }
}

// A run is a group of two blocks, each of which has one scale. If scales change only between groups, a run is all
// columns of a scale.
TEST(ScaleRun, GivesBothHalvesOfAGroupTheirScale) {
  constexpr std::size_t group = 2 * block_of_scale;
  for (std::size_t blocks = 1; blocks <= 12; ++blocks) {
    const std::size_t of_scale = blocks * block_of_scale;
    for (std::size_t first = 0; first < 6 * group; first += group) {
      for (std::size_t end = first; end <= 6 * group; end += group) {
        std::size_t at = first;
        for (scale_run run({first, end - first, of_scale, true}); run.is_there(); run.advance()) {
          EXPECT_EQ(run.begin, at);
          ASSERT_GT(run.end, run.begin);
          at = run.end;
          EXPECT_EQ(at % group, 0U);
          EXPECT_EQ(run.number, run.begin / of_scale);
          EXPECT_EQ(run.second, (run.begin + block_of_scale) / of_scale);
          EXPECT_EQ(run.second, (at - 1) / of_scale);
        }
        EXPECT_EQ(at, end);
      }
    }
  }
}

}  // namespace
