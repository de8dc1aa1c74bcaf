#include "ecq/quantize/hqq.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/format/fp16.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::hqq;
using ecq::matrix_view;

TEST(Hqq, GroupsAreCutAtRowEnds) {
  const auto weights = ecq_test::gaussian(5, 150);
  const auto whole = hqq{}.apply(cpu{}, matrix_view<const float>(weights.data(), 5, 150));
  ASSERT_TRUE(whole);
  EXPECT_DOUBLE_EQ(whole->bits_per_weight, 4 + 32.0 * 3 * 5 / 750);
  const auto wide = hqq{.group_size = 1000}.apply(cpu{}, matrix_view<const float>(weights.data(), 5, 150));
  EXPECT_DOUBLE_EQ(wide->bits_per_weight, 4 + 32.0 * 5 / 750);
}

TEST(Hqq, CodesLieOnAnEvenGridOfTheirGroup) {
  const auto weights = ecq_test::gaussian(4, 64);
  for (int bits = 2; bits <= 8; ++bits) {
    const auto rounded = hqq{.bits = bits}.apply(cpu{}, matrix_view<const float>(weights.data(), 4, 64));
    ASSERT_TRUE(rounded);
    for (std::size_t row = 0; row < 4; ++row) {
      const auto codes = std::span(rounded->codes).subspan(row * 64, 64);
      const auto values = std::span(rounded->weights).subspan(row * 64, 64);
      const auto [least, most] = std::minmax_element(codes.begin(), codes.end());
      ASSERT_LT(*least, *most);
      ASSERT_LT(*most, 1 << bits);
      const float lowest = values[static_cast<std::size_t>(least - codes.begin())];
      const float highest = values[static_cast<std::size_t>(most - codes.begin())];
      const float measured = (highest - lowest) / static_cast<float>(*most - *least);
      const float scale = ecq::fp16(measured);
      EXPECT_NEAR(measured, scale, scale * 1e-5F) << "not an FP16";
      for (std::size_t column = 0; column < 64; ++column) {
        const float steps = static_cast<float>(codes[column] - *least);
        EXPECT_NEAR(values[column], lowest + steps * scale, scale * 1e-3F);
      }
    }
  }
}

TEST(Hqq, FittedZeroPointsBeatTheRange) {
  const auto weights = ecq_test::student_t4(256, 256);
  const matrix_view<const float> view(weights.data(), 256, 256);
  const auto rounded = hqq{.bits = 3}.apply(cpu{}, view);
  std::vector<float> plain = weights;
  for (std::size_t first = 0; first < plain.size(); first += 64) {
    const std::span<float> group(plain.data() + first, 64);
    const auto start = ecq::detail::start_group(3, group);
    for (float& weight : group) {
      weight = (ecq::detail::hqq_code(start, 7.0F, weight) - start.zero) / start.inverse_scale;
    }
  }
  const auto fitted = ecq::measure_error(cpu{}, view, matrix_view<const float>(rounded->weights.data(), 256, 256));
  const auto ranged = ecq::measure_error(cpu{}, view, matrix_view<const float>(plain.data(), 256, 256));
  EXPECT_LT(fitted->relative_l1(), ranged->relative_l1());
}

TEST(Hqq, ConstantGroupsSurvive) {
  const std::vector<float> weights(130, 0.3F);
  const auto rounded = hqq{.bits = 2}.apply(cpu{}, matrix_view<const float>(weights.data(), 1, 130));
  for (const float weight : rounded->weights) EXPECT_NEAR(weight, 0.3F, 0.0005F);
}

TEST(Hqq, LargeErrorsAreShrunk) {
  // Errors beyond 0.17 take the branch with the power.
  std::vector<float> weights = ecq_test::gaussian(8, 64);
  for (float& weight : weights) weight *= 100;
  const matrix_view<const float> view(weights.data(), 8, 64);
  const auto rounded = hqq{.bits = 2}.apply(cpu{}, view);
  const auto measured = ecq::measure_error(cpu{}, view, matrix_view<const float>(rounded->weights.data(), 8, 64));
  EXPECT_GT(measured->sqnr_db(), 6.5);
}

TEST(Hqq, OptionsOutOfRange) {
  for (const int bits : {-1, 0, 1, 9}) EXPECT_FALSE((hqq{.bits = bits}.apply(cpu{}, {})));
  const auto rounded = hqq{.group_size = 0}.apply(cpu{}, {});
  ASSERT_FALSE(rounded);
  EXPECT_EQ(rounded.error().code(), ecq::errc::invalid_argument);
}

}  // namespace
