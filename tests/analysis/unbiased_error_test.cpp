#include "ecq/analysis/unbiased_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::measure_error;
using ecq::measure_unbiased_error;
using ecq::weights_view;

weights_view view(const std::vector<float>& weights, std::size_t rows) {
  return ecq::matrix_view<const float>(weights.data(), rows, weights.size() / rows);
}

TEST(UnbiasedError, ByHand) {
  // The first row is halved. The second has <w,w> = 25 and <w,v> = 20, so that 1.25 v = (5, 2.5).
  const std::vector<float> original = {2, -4, 3, 4}, reconstructed = {1, -2, 4, 2};
  const auto measured = measure_unbiased_error(cpu{}, view(original, 2), view(reconstructed, 2));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->count, 4U);
  EXPECT_DOUBLE_EQ(measured->squared_error, 4 + 2.25);
  EXPECT_DOUBLE_EQ(measured->sqnr_db(), 10 * std::log10(45 / 6.25));
}

TEST(UnbiasedError, SeesNoScaleOfARow) {
  const auto original = ecq_test::gaussian(60, 300, 1);
  auto scaled = original;
  for (std::size_t at = 0; at < scaled.size(); ++at) scaled[at] *= std::ldexp(1.0F, static_cast<int>(at / 300 % 7) - 3);
  EXPECT_EQ(measure_unbiased_error(cpu{}, view(original, 60), view(original, 60))->squared_error, 0);
  EXPECT_EQ(measure_unbiased_error(cpu{}, view(original, 60), view(scaled, 60))->squared_error, 0);
  auto noisy = original;
  const auto noise = ecq_test::gaussian(60, 300, 2, 0.005F);
  for (std::size_t at = 0; at < noisy.size(); ++at) noisy[at] += noise[at];
  const double once = measure_unbiased_error(cpu{}, view(original, 60), view(noisy, 60))->sqnr_db();
  for (float& weight : noisy) weight *= 0.25F;
  EXPECT_NEAR(measure_unbiased_error(cpu{}, view(original, 60), view(noisy, 60))->sqnr_db(), once, 1e-5);
}

TEST(UnbiasedError, LeavesARowWithoutAGainAsItIs) {
  const std::vector<float> original = {1, 2, 1, 0, 3, 4}, reconstructed = {0, 0, 0, 1, -3, -4};
  EXPECT_EQ(*measure_unbiased_error(cpu{}, view(original, 3), view(reconstructed, 3)),
            *measure_error(cpu{}, view(original, 3), view(reconstructed, 3)));
}

TEST(UnbiasedError, LeavesOutWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> original = {2, infinity, 4, 6}, reconstructed = {1, 1, 2, std::nanf("")};
  const auto measured = measure_unbiased_error(cpu{}, view(original, 1), view(reconstructed, 1));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->count, 2U);
  EXPECT_EQ(measured->non_finite, 2U);
  EXPECT_EQ(measured->squared_error, 0);
}

TEST(UnbiasedError, SameForEveryThreadCount) {
  const auto original = ecq_test::gaussian(70, 100, 1), reconstructed = ecq_test::gaussian(70, 100, 2);
  const auto expected = measure_unbiased_error(cpu{.threads = 1}, view(original, 70), view(reconstructed, 70));
  ASSERT_TRUE(expected);
  EXPECT_EQ(*measure_unbiased_error(cpu{.threads = 3}, view(original, 70), view(reconstructed, 70)), *expected);
  EXPECT_EQ(measure_unbiased_error(cpu{}, view(original, 70), view(reconstructed, 100)).error().code(),
            ecq::errc::invalid_argument);
}

}  // namespace
