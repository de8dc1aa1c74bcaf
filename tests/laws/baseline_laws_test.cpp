// Laws of every comparison method (quantize/baseline.hpp).

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "ecq/quantize/baseline.hpp"
#include "support/policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::matrix_view;

matrix_view<const float> view(const std::vector<float>& weights, std::size_t rows) {
  return {weights.data(), rows, weights.size() / rows};
}

template <class Method>
class BaselineLaws : public testing::Test {
  static_assert(ecq::baseline<Method>);
};

TYPED_TEST_SUITE(BaselineLaws, ecq_test::all_baselines, ecq_test::policy_names);

TYPED_TEST(BaselineLaws, ResultsDoNotDependOnThreadsOrElementType) {
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

TYPED_TEST(BaselineLaws, TransposedWeightsAreReadInTheirOwnOrder) {
  const auto weights = ecq_test::gaussian(20, 30);
  std::vector<float> transposed(weights.size());
  for (std::size_t index = 0; index < weights.size(); ++index)
    transposed[index % 30 * 20 + index / 30] = weights[index];
  const auto expected = TypeParam{}.apply(cpu{}, view(weights, 20));
  const auto strided = TypeParam{}.apply(cpu{}, matrix_view<const float>(transposed.data(), 20, 30, 1, 20));
  EXPECT_EQ(strided->weights, expected->weights);
}

TYPED_TEST(BaselineLaws, ZerosStayZeros) {
  const std::vector<float> zeros(3 * 70, 0.0F);
  const auto rounded = TypeParam{}.apply(cpu{}, view(zeros, 3));
  ASSERT_TRUE(rounded);
  for (const float weight : rounded->weights) EXPECT_EQ(weight, 0.0F);
}

TYPED_TEST(BaselineLaws, SmallMatricesAndEmptyOnes) {
  const auto empty = TypeParam{}.apply(cpu{}, {});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->weights.empty());
  EXPECT_EQ(empty->bits_per_weight, 0.0);
  const std::vector<float> one = {-0.75F};
  const auto single = TypeParam{}.apply(cpu{}, view(one, 1));
  ASSERT_TRUE(single);
  EXPECT_NEAR(single->weights[0], -0.75F, 0.005F);
}

TYPED_TEST(BaselineLaws, ExtremeWeightsGiveFiniteOnes) {
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

TYPED_TEST(BaselineLaws, NonFiniteWeightsAreNamed) {
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

TYPED_TEST(BaselineLaws, ShapesBeyondMemoryAreRefused) {
  const float weight = 0;
  const matrix_view<const float> endless(&weight, std::size_t{1} << 40, std::size_t{1} << 40, 0, 0);
  const auto rounded = TypeParam{}.apply(cpu{}, endless);
  ASSERT_FALSE(rounded);
  EXPECT_EQ(rounded.error().code(), errc::limit_exceeded);
}

TEST(Baselines, NamesAreUnique) {
  std::set<std::string_view> names;
  ecq_test::for_each_policy(ecq_test::all_baselines{},
                            [&]<class Method>() { EXPECT_TRUE(names.insert(Method::name).second) << Method::name; });
}

}  // namespace
