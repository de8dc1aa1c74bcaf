#include "ecq/analysis/weight_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;
using ecq::measure_error;
using ecq::weight_error;
using ecq::weights_view;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

weights_view view(const std::vector<float>& weights, std::size_t rows) {
  return matrix_view<const float>(weights.data(), rows, weights.size() / rows);
}

TEST(WeightError, ByHand) {
  const std::vector<float> original = {1, -2, 3, -4};
  const std::vector<float> reconstructed = {1.5F, -2, 2, -4};
  const auto measured = measure_error(cpu{}, view(original, 2), view(reconstructed, 2));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->count, 4U);
  EXPECT_DOUBLE_EQ(measured->relative_l1(), 1.5 / 10);
  EXPECT_DOUBLE_EQ(measured->sqnr_db(), 10 * std::log10(30 / 1.25));
  EXPECT_EQ(measured->largest_error, 1.0);
}

TEST(WeightError, SameForEveryThreadCountAndElementType) {
  const auto original = ecq_test::gaussian(700, 1000, 1);
  const auto reconstructed = ecq_test::gaussian(700, 1000, 2);
  const auto expected = measure_error(cpu{}, view(original, 700), view(reconstructed, 700));
  for (const unsigned threads : {2U, 3U, 8U}) {
    EXPECT_EQ(*measure_error(cpu{.threads = threads}, view(original, 700), view(reconstructed, 700)), *expected);
  }
  std::vector<ecq::bf16> halves;
  for (const float weight : reconstructed) halves.emplace_back(weight);
  const matrix_view<const ecq::bf16> same(halves.data(), 700, 1000);
  EXPECT_EQ(*measure_error(cpu{}, view(original, 700), same), *expected);
}

TEST(WeightError, PartsAddUp) {
  const auto original = ecq_test::gaussian(64, 100, 1);
  const auto reconstructed = ecq_test::student_t4(64, 100, 2);
  const matrix_view<const float> before(original.data(), 64, 100);
  const matrix_view<const float> after(reconstructed.data(), 64, 100);
  weight_error sum;
  for (std::size_t row = 0; row < 64; row += 16) {
    sum += *measure_error(cpu{}, before.row_range(row, 16), after.row_range(row, 16));
  }
  const auto whole = measure_error(cpu{}, before, after);
  EXPECT_EQ(sum.count, whole->count);
  EXPECT_EQ(sum.largest_error, whole->largest_error);
  EXPECT_NEAR(sum.relative_l1(), whole->relative_l1(), 1e-12);
  EXPECT_NEAR(sum.sqnr_db(), whole->sqnr_db(), 1e-10);
}

TEST(WeightError, WithoutErrorOrSignal) {
  const std::vector<float> ones(6, 1.0F);
  const std::vector<float> zeros(6, 0.0F);
  const auto exact = measure_error(cpu{}, view(ones, 2), view(ones, 2));
  EXPECT_EQ(exact->relative_l1(), 0.0);
  EXPECT_EQ(exact->sqnr_db(), std::numeric_limits<double>::infinity());
  const auto nothing = measure_error(cpu{}, view(zeros, 2), view(zeros, 2));
  EXPECT_EQ(nothing->relative_l1(), 0.0);
  EXPECT_EQ(nothing->sqnr_db(), std::numeric_limits<double>::infinity());
  const auto noise_alone = measure_error(cpu{}, view(zeros, 2), view(ones, 2));
  EXPECT_EQ(noise_alone->relative_l1(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(noise_alone->sqnr_db(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(measure_error(cpu{}, {}, {})->count, 0U);
  EXPECT_EQ(weight_error{}.relative_l1(), 0.0);
}

TEST(WeightError, NonFinitePairsAreCountedApart) {
  const std::vector<float> original = {1, nan, infinity, 4, -infinity};
  const std::vector<float> reconstructed = {1, 2, infinity, nan, 3};
  const auto measured = measure_error(cpu{}, view(original, 1), view(reconstructed, 1));
  EXPECT_EQ(measured->count, 1U);
  EXPECT_EQ(measured->non_finite, 4U);
  EXPECT_EQ(measured->absolute_weight, 1.0);
  EXPECT_EQ(measured->relative_l1(), 0.0);
}

TEST(WeightError, ExtremesDoNotOverflow) {
  const float most = (std::numeric_limits<float>::max)();
  const std::vector<float> original = {most, most};
  const std::vector<float> reconstructed = {-most, -most};
  const auto measured = measure_error(cpu{}, view(original, 1), view(reconstructed, 1));
  EXPECT_EQ(measured->count, 2U);
  EXPECT_DOUBLE_EQ(measured->relative_l1(), 2.0);
}

TEST(WeightError, LongRowsAndStrides) {
  const auto original = ecq_test::gaussian(1, 10001, 1);
  const auto reconstructed = ecq_test::gaussian(1, 10001, 2);
  weight_error expected;
  expected.add(original, reconstructed);
  EXPECT_EQ(*measure_error(cpu{}, view(original, 1), view(reconstructed, 1)), expected);
  const matrix_view<const float> down(original.data(), 10001, 1);
  const matrix_view<const float> down_too(reconstructed.data(), 10001, 1);
  EXPECT_EQ(measure_error(cpu{}, down, down_too)->count, 10001U);
}

TEST(WeightError, ShapesMustAgree) {
  const std::vector<float> weights(12);
  const auto measured = measure_error(cpu{}, view(weights, 3), view(weights, 4));
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code(), ecq::errc::invalid_argument);
  EXPECT_EQ(measured.error().message(), "original is 3 x 4, reconstructed is 4 x 3");
}

}  // namespace
