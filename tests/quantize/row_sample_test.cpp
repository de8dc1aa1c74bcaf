#include "ecq/quantize/row_sample.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <set>

namespace {

using ecq::detail::row_sample;
using ecq::detail::row_sampler;

/// Returns the sample of a matrix that is alone in its stream.
row_sample sample_of(std::uint64_t rows, std::uint64_t columns, std::uint64_t weights, std::uint64_t limit) {
  return row_sampler(weights, limit, rows).next(rows, columns);
}

TEST(RowSample, TakesOneRowOfEachNeighbours) {
  for (const std::uint64_t rows : {1U, 2U, 7U, 1000U, 4096U}) {
    for (const std::uint64_t weights : {rows * 64, rows * 640, rows * 64000}) {
      const auto sample = sample_of(rows, 64, weights, rows * 64);
      ASSERT_GE(sample.rows, 1U);
      ASSERT_GE(sample.rows * sample.step, rows) << "the last rows have nobody";
      for (std::uint64_t i = 0; i < sample.rows; ++i) {
        ASSERT_LT(sample.row(i), rows);
        ASSERT_EQ(sample.row(i) / sample.step, i);
      }
    }
  }
}

// A constant stride would see either every second row or only those between.
TEST(RowSample, SeesAllKindsOfRowsThatTakeTurns) {
  for (const std::uint64_t period : {2U, 3U, 4U, 8U, 16U, 64U}) {
    constexpr std::uint64_t rows = 1U << 20;
    const auto sample = sample_of(rows, 1, rows, rows / 64);
    std::uint64_t first_kind = 0;
    for (std::uint64_t i = 0; i < sample.rows; ++i) first_kind += sample.row(i) % period == 0;
    const double expected = static_cast<double>(sample.rows) / static_cast<double>(period);
    EXPECT_NEAR(static_cast<double>(first_kind) / expected, 1.0, 0.25) << period;
  }
}

TEST(RowSample, SeesEveryRowOfASmallModel) {
  row_sampler sampler(12 * 64, 1 << 22, 12);
  std::uint64_t expected = 0;
  for (const std::uint64_t rows : {5U, 1U, 6U}) {
    const auto sample = sampler.next(rows, 64);
    ASSERT_EQ(sample.rows, rows);
    EXPECT_EQ(sample.stands_for, 1.0);
    for (std::uint64_t i = 0; i < rows; ++i, ++expected) EXPECT_EQ(sample.row(i), i);
  }
  EXPECT_EQ(expected, 12U);
}

// The samples of several matrices are that of one matrix with all their rows.
TEST(RowSample, IsThatOfAllMatricesStacked) {
  for (const std::uint64_t step : {1U, 2U, 7U, 100U, 5000U}) {
    const std::array<std::uint64_t, 7> heights = {3, 40, 1, 1, 900, 64, 55};
    const std::uint64_t all = std::accumulate(heights.begin(), heights.end(), std::uint64_t{0});
    const auto stacked = sample_of(all, 1, step << 20, 1 << 20);
    ASSERT_EQ(stacked.step, step);
    row_sampler sampler(step << 20, 1 << 20, all);
    std::uint64_t taken = 0;
    std::uint64_t before = 0;
    for (const std::uint64_t height : heights) {
      const auto sample = sampler.next(height, 1);
      EXPECT_EQ(sample.stands_for, stacked.stands_for);
      for (std::uint64_t i = 0; i < sample.rows; ++i, ++taken) {
        ASSERT_LT(sample.row(i), height);
        ASSERT_EQ(before + sample.row(i), stacked.row(taken));
      }
      before += height;
    }
    EXPECT_EQ(taken, stacked.rows);
  }
}

// 60 layers with 768 matrices of experts each: about 10^12 weights. One row of each matrix would have 10^8 of them.
TEST(RowSample, IsNoLargerForAModelOf10ToThe12Weights) {
  constexpr std::uint64_t layers = 60, experts = 768, rows = 7168, columns = 3072;
  constexpr std::uint64_t limit = std::uint64_t{1} << 22;
  std::uint64_t looked_at = 0;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    row_sampler sampler(layers * experts * rows * columns, limit, experts * rows);
    std::uint64_t of_layer = 0;
    double stood_for = 0;
    std::set<std::uint64_t> places;
    for (std::uint64_t expert = 0; expert < experts; ++expert) {
      const auto sample = sampler.next(rows, columns);
      of_layer += sample.rows;
      for (std::uint64_t i = 0; i < sample.rows; ++i) places.insert(sample.row(i));
      stood_for += sample.stands_for * static_cast<double>(sample.rows * sample.columns);
    }
    ASSERT_GE(of_layer, 16U);
    EXPECT_EQ(places.size(), of_layer) << "the same row of every matrix";
    EXPECT_NEAR(stood_for / static_cast<double>(experts * rows * columns), 1.0, 1e-9);
    looked_at += of_layer * columns;
  }
  EXPECT_LT(looked_at, 2 * limit);
}

}  // namespace
