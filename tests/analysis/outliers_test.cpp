#include "ecq/analysis/outliers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::find_outliers;
using ecq::matrix_view;
using positions = std::vector<std::uint64_t>;

constexpr std::size_t rows = 150, columns = 220;

positions found(const std::vector<float>& weights, double ratio = ecq::usual_outlier_ratio, unsigned threads = 1) {
  const auto made = find_outliers(cpu{.threads = threads}, matrix_view(weights.data(), rows, columns), ratio);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? *made : positions{};
}

class Outliers : public testing::Test {
 protected:
  std::vector<float> weights = ecq_test::gaussian(rows, columns);  // mean magnitude 0.016
};

TEST_F(Outliers, StandOutOfTheirRowAndColumn) {
  EXPECT_EQ(found(weights), positions{});
  weights[37 * columns + 5] = -1.5F;
  EXPECT_EQ(found(weights), positions{37 * columns + 5});
  weights[149 * columns + 219] = 2.0F;
  const positions both{37 * columns + 5, 149 * columns + 219};
  EXPECT_EQ(found(weights), both);
  for (const unsigned threads : {2U, 3U, 7U}) EXPECT_EQ(found(weights, 64, threads), both);
  EXPECT_EQ(found(weights, 110), positions{149 * columns + 219});
}

// Channels that are large as a whole have, or need, scales of their own.
TEST_F(Outliers, AreNoLargeRowsAndColumns) {
  for (std::size_t column = 0; column < columns; ++column) weights[3 * columns + column] *= 100;
  EXPECT_EQ(found(weights), positions{});
  for (std::size_t row = 0; row < rows; ++row) weights[row * columns + 7] *= row == 3 ? 1.0F : 100.0F;
  EXPECT_EQ(found(weights), positions{});
}

// Where most weights are zero, several large ones are not outliers; a single one is.
TEST_F(Outliers, AreRare) {
  for (std::size_t at = 0; at < weights.size(); ++at) weights[at] = at % 1001 == 0 ? 1.0F : 0.0F;
  EXPECT_EQ(found(weights), positions{});
  std::fill(weights.begin() + 1, weights.end(), 0.0F);
  EXPECT_EQ(found(weights), positions{0});
}

TEST_F(Outliers, TakeAnyWeights) {
  weights[5] = std::numeric_limits<float>::quiet_NaN();
  weights[500] = -std::numeric_limits<float>::infinity();
  weights[2000] = std::numeric_limits<float>::max();
  weights[2001] = 1e30F;  // in the row of a still larger weight
  EXPECT_EQ(found(weights), positions{2000});
  EXPECT_EQ(*find_outliers(cpu{}, matrix_view<const float>(nullptr, 0, 5)), positions{});
  const float one = 3;
  EXPECT_EQ(*find_outliers(cpu{}, matrix_view(&one, 1, 1)), positions{});  // nothing to compare it with
  const std::vector<float> row{0.1F, 0.2F, -90.0F};
  EXPECT_EQ(*find_outliers(cpu{}, matrix_view(row.data(), 1, 3)), positions{2});
  EXPECT_EQ(*find_outliers(cpu{}, matrix_view(row.data(), 3, 1)), positions{2});
  for (const double ratio : {1.0, 0.0, -3.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(find_outliers(cpu{}, matrix_view(weights.data(), rows, columns), ratio).error().code(),
              ecq::errc::invalid_argument);
  }
}

// Weights that are kept exact do not count as outliers.
TEST_F(Outliers, LeaveOutWhatIsExact) {
  weights[77] = 5;
  const positions exact{77};
  const ecq::weights_view all = matrix_view(weights.data(), rows, columns);
  EXPECT_EQ(*find_outliers(cpu{}, all), exact);
  EXPECT_EQ(*find_outliers(cpu{}, all.with_exact(exact)), positions{});
}

}  // namespace
