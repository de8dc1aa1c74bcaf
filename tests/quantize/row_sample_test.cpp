#include "ecq/quantize/row_sample.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using ecq::detail::row_sample;
using ecq::detail::sampled_row;

TEST(row_sample, takes_one_row_of_each_neighbours) {
  for (const std::uint64_t rows : {1U, 2U, 7U, 1000U, 4096U}) {
    for (const std::uint64_t weights : {rows * 64, rows * 640, rows * 64000}) {
      const auto sample = row_sample::of(rows, 64, weights, rows * 64);
      ASSERT_GE(sample.rows, 1U);
      for (std::uint64_t i = 0; i < sample.rows; ++i) {
        const std::uint64_t row = sampled_row(i, sample.step, rows);
        ASSERT_LT(row, rows);
        ASSERT_EQ(row / sample.step, i);
      }
    }
  }
}

// A stride would see every second row, or only those between.
TEST(row_sample, sees_all_kinds_of_rows_that_take_turns) {
  for (const std::uint64_t period : {2U, 3U, 4U, 8U, 16U, 64U}) {
    constexpr std::uint64_t rows = 1U << 20;
    const auto sample = row_sample::of(rows, 1, rows, rows / 64);
    std::uint64_t first_kind = 0;
    for (std::uint64_t i = 0; i < sample.rows; ++i) first_kind += sampled_row(i, sample.step, rows) % period == 0;
    const double expected = static_cast<double>(sample.rows) / static_cast<double>(period);
    EXPECT_NEAR(static_cast<double>(first_kind) / expected, 1.0, 0.25) << period;
  }
}

TEST(row_sample, stands_for_all_weights_of_models_of_any_size) {
  const std::uint64_t model = 1'000'000'000'000U;
  const auto sample = row_sample::of(16384, 16384, model, std::uint64_t{1} << 22);
  EXPECT_EQ(sample.rows, 1U);
  EXPECT_EQ(sample.columns, 16384U);
  EXPECT_EQ(sample.stands_for, 16384.0);
  EXPECT_LT(sampled_row(0, sample.step, 16384), 16384U);
}

}  // namespace
