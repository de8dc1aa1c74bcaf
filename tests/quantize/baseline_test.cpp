#include "ecq/quantize/baseline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"
#include "support/weights.hpp"

namespace {

using ecq::baseline_result;
using ecq::cpu;
using ecq::errc;
using ecq::hqq;
using ecq::matrix_view;
using ecq::nf4;
using ecq::rtn;

matrix_view<const float> view(const std::vector<float>& weights, std::size_t rows) {
  return {weights.data(), rows, weights.size() / rows};
}

// What holds for every comparison method.
template <class Method>
class Baseline : public testing::Test {};

using methods = testing::Types<rtn, nf4, hqq>;
TYPED_TEST_SUITE(Baseline, methods);

TYPED_TEST(Baseline, ResultsDoNotDependOnThreadsOrElementType) {
  const auto weights = ecq_test::row_varying(37, 150);
  const auto expected = TypeParam{}.apply(cpu{}, view(weights, 37));
  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->weights.size(), weights.size());
  EXPECT_EQ(expected->codes.size(), weights.size());
  const auto threaded = TypeParam{}.apply(cpu{.threads = 3}, view(weights, 37));
  EXPECT_EQ(threaded->weights, expected->weights);
  EXPECT_EQ(threaded->codes, expected->codes);
  std::vector<ecq::bf16> halves;
  for (const float weight : weights) halves.emplace_back(weight);
  const auto from_bf16 = TypeParam{}.apply(cpu{}, matrix_view<const ecq::bf16>(halves.data(), 37, 150));
  EXPECT_EQ(from_bf16->weights, expected->weights);
}

TYPED_TEST(Baseline, TransposedWeightsAreReadInTheirOwnOrder) {
  const auto weights = ecq_test::gaussian(20, 30);
  std::vector<float> transposed(weights.size());
  for (std::size_t index = 0; index < weights.size(); ++index)
    transposed[index % 30 * 20 + index / 30] = weights[index];
  const auto expected = TypeParam{}.apply(cpu{}, view(weights, 20));
  const auto strided = TypeParam{}.apply(cpu{}, matrix_view<const float>(transposed.data(), 20, 30, 1, 20));
  EXPECT_EQ(strided->weights, expected->weights);
}

TYPED_TEST(Baseline, ZerosStayZeros) {
  const std::vector<float> zeros(3 * 70, 0.0F);
  const auto rounded = TypeParam{}.apply(cpu{}, view(zeros, 3));
  ASSERT_TRUE(rounded);
  for (const float weight : rounded->weights) EXPECT_EQ(weight, 0.0F);
}

TYPED_TEST(Baseline, SmallMatricesAndEmptyOnes) {
  const auto empty = TypeParam{}.apply(cpu{}, {});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->weights.empty());
  EXPECT_EQ(empty->bits_per_weight, 0.0);
  const std::vector<float> one = {-0.75F};
  const auto single = TypeParam{}.apply(cpu{}, view(one, 1));
  ASSERT_TRUE(single);
  EXPECT_NEAR(single->weights[0], -0.75F, 0.005F);
}

TYPED_TEST(Baseline, ExtremeWeightsGiveFiniteOnes) {
  const float most = (std::numeric_limits<float>::max)();
  const std::vector<std::vector<float>> matrices = {{most, -most, 1.0F, 0.0F},
                                                    {most, most, most, most},
                                                    {1e-45F, -1e-45F, 0.0F, 1e-40F},
                                                    {1e6F, 1e6F + 1, 1e6F, 1e6F}};
  for (const auto& weights : matrices) {
    const auto rounded = TypeParam{}.apply(cpu{}, view(weights, 2));
    ASSERT_TRUE(rounded);
    for (const float weight : rounded->weights) EXPECT_TRUE(std::isfinite(weight)) << weights[0];
  }
}

TYPED_TEST(Baseline, NonFiniteWeightsAreNamed) {
  auto weights = ecq_test::gaussian(20, 30);
  weights[7 * 30 + 11] = std::numeric_limits<float>::quiet_NaN();
  weights[9 * 30 + 2] = std::numeric_limits<float>::infinity();
  for (const unsigned threads : {1U, 4U}) {
    const auto rounded = TypeParam{}.apply(cpu{.threads = threads}, view(weights, 20));
    ASSERT_FALSE(rounded);
    EXPECT_EQ(rounded.error().code(), errc::non_finite);
    EXPECT_EQ(rounded.error().message(), "weight at row 7, column 11 is NaN");
  }
}

TYPED_TEST(Baseline, ShapesBeyondMemoryAreRefused) {
  const float weight = 0;
  const matrix_view<const float> endless(&weight, std::size_t{1} << 40, std::size_t{1} << 40, 0, 0);
  const auto rounded = TypeParam{}.apply(cpu{}, endless);
  ASSERT_FALSE(rounded);
  EXPECT_EQ(rounded.error().code(), errc::limit_exceeded);
}

/// A method on Gaussian weights, 1024 x 1024, standard deviation 0.02.
class BaselineFigures : public testing::Test {
 protected:
  template <class Method>
  static void expect(const Method& method, double bits, double sqnr_db) {
    static const std::vector<float> weights = ecq_test::gaussian(1024, 1024);
    const auto rounded = method.apply(cpu{.threads = 2}, view(weights, 1024));
    ASSERT_TRUE(rounded);
    EXPECT_NEAR(rounded->bits_per_weight, bits, 0.0005);
    const auto measured = ecq::measure_error(cpu{.threads = 2}, view(weights, 1024), view(rounded->weights, 1024));
    EXPECT_NEAR(measured->sqnr_db(), sqnr_db, 0.2) << Method::name;
    RecordProperty("sqnr_db", std::to_string(measured->sqnr_db()));
  }
};

TEST_F(BaselineFigures, Rtn4) { expect(rtn{.bits = 4}, 4 + 16.0 / 1024, 16.9); }
TEST_F(BaselineFigures, Rtn3) { expect(rtn{.bits = 3}, 3 + 16.0 / 1024, 9.5); }
TEST_F(BaselineFigures, Rtn2) { expect(rtn{.bits = 2}, 2 + 16.0 / 1024, 1.2); }
TEST_F(BaselineFigures, Nf4) { expect(nf4{}, 4.5, 20.7); }
TEST_F(BaselineFigures, Nf4DoubleQuantization) { expect(nf4{.double_quantization = true}, 4.127, 20.7); }
TEST_F(BaselineFigures, Hqq4) { expect(hqq{.bits = 4}, 4.5, 21.2); }
TEST_F(BaselineFigures, Hqq3) { expect(hqq{.bits = 3}, 3.5, 14.7); }
TEST_F(BaselineFigures, Hqq2) { expect(hqq{.bits = 2}, 2.5, 7.3); }

}  // namespace
