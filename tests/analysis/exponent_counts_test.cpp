#include "ecq/analysis/exponent_counts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/format/dtype.hpp"

namespace {

using ecq::dtype;
using ecq::exponent_counts;
using ecq::matrix_view;

/// Returns independent N(0, 1) numbers by the Box-Muller transform, the same with every standard library.
std::vector<float> normal_numbers(std::size_t count) {
  std::mt19937 random(3);
  std::vector<float> values(count);
  for (float& value : values) {
    const double first = (static_cast<double>(random()) + 1) * 0x1p-32;
    const double second = static_cast<double>(random()) * 0x1p-32;
    value = static_cast<float>(std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second));
  }
  return values;
}

exponent_counts count(matrix_view<const float> weights) {
  const auto counts = ecq::count_weight_exponents(ecq::cpu{}, weights);
  EXPECT_TRUE(counts);
  return *counts;
}

template <class Format>
void expect_fields_of_every_code() {
  using code_type = typename Format::code_type;
  constexpr std::size_t codes = std::size_t{1} << Format::bits_per_code;
  std::vector<Format> weights(codes);
  for (std::size_t code = 0; code < codes; ++code) weights[code] = Format::from_bits(static_cast<code_type>(code));
  const auto counts = ecq::count_weight_exponents(ecq::cpu{}, matrix_view<const Format>(weights.data(), 4, codes / 4));
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->weights(), codes);
  constexpr dtype format = ecq::dtype_of<Format>;
  auto fields = counts->fields_in(format);
  const auto expected = ecq::count_exponents(ecq::cpu{}, format, std::as_bytes(std::span<const Format>(weights)));
  ASSERT_TRUE(expected);
  EXPECT_EQ(fields, *expected) << ecq::to_string(format);
}

TEST(ExponentCounts, ByHand) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> weights{0.0F, -0.0F, 1.0F, -1.5F, 0.75F, 0x1p-20F, -infinity, std::nanf("")};
  const exponent_counts counts = count({weights.data(), 2, 4});
  EXPECT_EQ(counts.weights(), 8U);
  EXPECT_EQ(counts.zeros(), 2U);
  EXPECT_EQ(counts.non_finite(), 2U);
  EXPECT_EQ(counts.at(0), 2U);
  EXPECT_EQ(counts.at(-1), 1U);
  EXPECT_EQ(counts.at(-20), 1U);
  EXPECT_DOUBLE_EQ(ecq::exponent_entropy(counts, dtype::fp32), 2.25);
  EXPECT_DOUBLE_EQ(ecq::lossless_bits(counts, dtype::bf16), 2.25 + 8);
  // 2^-20 is subnormal in FP16 and shares the field of the zeros.
  EXPECT_DOUBLE_EQ(ecq::exponent_entropy(counts, dtype::fp16), 3 * 0.375 * std::log2(8.0 / 3) / 3 + 0.5 * 2 + 0.375);
}

TEST(ExponentCounts, FoldIntoTheFieldsOfEachFormat) {
  expect_fields_of_every_code<ecq::fp16>();
  expect_fields_of_every_code<ecq::bf16>();
  expect_fields_of_every_code<ecq::fp8_e4m3>();
  expect_fields_of_every_code<ecq::fp8_e5m2>();
}

TEST(ExponentCounts, AddUpAndDoNotDependOnThreads) {
  const std::vector<float> weights = normal_numbers(600 * 1000);
  const matrix_view<const float> all(weights.data(), 600, 1000);
  const auto together = ecq::count_weight_exponents(ecq::cpu{.threads = 3}, all);
  ASSERT_TRUE(together);
  exponent_counts sum = count({weights.data(), 200, 1000});
  sum += count({weights.data() + 200 * 1000, 400, 1000});
  EXPECT_EQ(*together, sum);
  // The sum is the same where a row is longer than the buffer, and for rows of a single column.
  EXPECT_EQ(count({weights.data(), 2, 300 * 1000}), sum);
  EXPECT_EQ(count({weights.data(), 600 * 1000, 1}), sum);
}

TEST(ExponentCounts, NothingHasNoEntropy) {
  const exponent_counts none = count({});
  EXPECT_EQ(none.weights(), 0U);
  EXPECT_EQ(ecq::exponent_entropy(none, dtype::bf16), 0.0);
  const auto scaled = ecq::count_scaled_exponents<ecq::fp8_e4m3>(ecq::cpu{}, ecq::weights_view());
  ASSERT_TRUE(scaled);
  EXPECT_EQ(*scaled, none);
}

/// The normal distribution's integral over the values that round to each exponent gives 2.5213 bits, or 2.542 if the
/// largest of about a thousand weights is 448. ECF8, appendix C, has about 2.6 bits, also after a Hadamard transform.
TEST(ExponentCounts, NormalWeightsInFp8HaveTwoAndAHalfBits) {
  const std::vector<float> weights = normal_numbers(256 * 1024);
  std::vector<ecq::fp8_e4m3> stored(weights.begin(), weights.end());
  const auto as_they_are =
      ecq::count_weight_exponents(ecq::cpu{}, matrix_view<const ecq::fp8_e4m3>(stored.data(), 256, 1024));
  ASSERT_TRUE(as_they_are);
  EXPECT_NEAR(ecq::exponent_entropy(*as_they_are, dtype::fp8_e4m3), 2.5213, 0.006);
  for (const std::size_t block : {std::size_t{1}, std::size_t{1024}}) {
    const auto scaled = ecq::count_scaled_exponents<ecq::fp8_e4m3>(
        ecq::cpu{}, matrix_view<const float>(weights.data(), 256, 1024), block);
    ASSERT_TRUE(scaled);
    EXPECT_NEAR(ecq::exponent_entropy(*scaled, dtype::fp8_e4m3), 2.542, 0.01) << block;
    EXPECT_GE(scaled->at(8), 256U) << "the largest weight of each row is 448";
  }
}

TEST(ExponentCounts, ScaleEachRowByItsLargestWeight) {
  const std::vector<float> weights{1e-30F, 0, -2e-30F, 0, 3e38F, 1e38F, 0, 1e30F, 0, 0, 0, 0};
  const auto scaled =
      ecq::count_scaled_exponents<ecq::fp8_e4m3>(ecq::cpu{}, matrix_view<const float>(weights.data(), 3, 4));
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->at(8), 2U);    // 448 both times
  EXPECT_EQ(scaled->at(7), 2U);    // 224, and 149 rounded to 144
  EXPECT_EQ(scaled->zeros(), 8U);  // 1e30 beside 3e38 is below what FP8 holds
  EXPECT_EQ(scaled->weights(), 12U);
}

TEST(ExponentCounts, WhatIsNotFiniteStaysSoAndScalesNothing) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> weights{infinity, 1, 2, 4, std::nanf(""), 1, 2, 4};
  const auto scaled =
      ecq::count_scaled_exponents<ecq::fp8_e4m3>(ecq::cpu{}, matrix_view<const float>(weights.data(), 2, 4));
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->non_finite(), 2U);
  EXPECT_EQ(scaled->at(8), 2U);
  EXPECT_EQ(scaled->at(7), 2U);
  EXPECT_EQ(scaled->at(6), 2U);
  const auto rotated =
      ecq::count_scaled_exponents<ecq::fp8_e4m3>(ecq::cpu{}, matrix_view<const float>(weights.data(), 2, 4), 2);
  ASSERT_TRUE(rotated);
  EXPECT_EQ(rotated->non_finite(), 4U);
}

}  // namespace
