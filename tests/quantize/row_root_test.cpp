#include "ecq/quantize/row_root.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "support/quantized.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::matrix_view;
using ecq_test::figures_of;

template <class Distortion = ecq::relative_l1, class Granularity = ecq::per_channel>
ecq::scaled_quantizer<ecq::row_root<Distortion>, Granularity> at(double lambda, Granularity granularity = {}) {
  return {{lambda}, granularity};
}

template <class Format, class Search>
std::vector<float> scales_of(const Search& search, const std::vector<float>& weights, const ecq::group_layout& layout) {
  std::vector<float> scales(layout.count());
  const matrix_view<const float> view(weights.data(), layout.rows, layout.columns);
  EXPECT_TRUE(search.template search<Format>(cpu{.threads = 2}, view, layout, scales));
  return scales;
}

/// Returns the difference of both sides of the equation in row_root's description, computed in FP64.
template <class Format, class Distortion>
double gradient(const std::vector<float>& weights, std::size_t columns, std::size_t row, double lambda, double scale) {
  double all = 0;
  for (const float weight : weights) all += static_cast<double>(Distortion::of(weight));
  double distortion = 0;
  double kept = 0;
  for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
    const double real = static_cast<double>(weights[i]) / scale;
    const double code = static_cast<double>(Format::decode(Format::encode(static_cast<float>(real))));
    distortion += static_cast<double>(Distortion::of(static_cast<float>((code - real) * scale)));
    if (code != 0) kept += std::abs(real);
  }
  const double pull = lambda * ecq::l1_norm::weight<Format>() / static_cast<double>(weights.size()) * kept;
  return Distortion::degree * distortion / all - pull;
}

template <class Format, class Distortion>
void expect_roots(double lambda) {
  constexpr std::size_t rows = 20;
  constexpr std::size_t columns = 1500;
  const auto weights = ecq_test::gaussian(rows, columns);
  const auto layout = ecq::per_channel{}.layout(rows, columns);
  const auto scales = scales_of<Format>(ecq::row_root<Distortion>{lambda}, weights, layout);
  for (std::size_t row = 0; row < rows; ++row) {
    const double scale = static_cast<double>(scales[row]);
    EXPECT_LT((gradient<Format, Distortion>(weights, columns, row, lambda, scale * 0.98)), 0) << row;
    EXPECT_GT((gradient<Format, Distortion>(weights, columns, row, lambda, scale * 1.02)), 0) << row;
  }
}

TEST(RowRoot, IsARootOfTheStraightThroughGradient) {
  for (const double lambda : {1.0, 7.0, 58.0, 256.0}) {
    expect_roots<ecq::fp8_e4m3, ecq::relative_l1>(lambda);
    expect_roots<ecq::fp8_e5m2, ecq::relative_l1>(lambda);
    expect_roots<ecq::fp8_e4m3, ecq::squared_error>(lambda);
    expect_roots<ecq::int8, ecq::relative_l1>(lambda);
  }
}

// Sums over few weights jump, so the search halves intervals. On the way, it meets roots.
TEST(RowRoot, KeepsTheRootThatItMeets) {
  constexpr std::size_t rows = 200, columns = 32;
  constexpr double lambda = 256;
  const auto weights = ecq_test::gaussian(rows, columns);
  const auto layout = ecq::per_channel{}.layout(rows, columns);
  const auto scales = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{lambda}, weights, layout);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto near = [&](int thousandths) {
      const double scale = static_cast<double>(scales[row]) * (1 + thousandths / 1000.0);
      return gradient<ecq::fp8_e4m3, ecq::relative_l1>(weights, columns, row, lambda, scale);
    };
    int changes = 0;
    for (int at = -10; at < 10; ++at) changes += (near(at) < 0) != (near(at + 1) < 0) ? 1 : 0;
    EXPECT_GT(changes, 0) << "row " << row << ": " << near(0);
  }
}

TEST(RowRoot, KeepsAScaleAtWhichBothSidesAreAsGoodAsEqual) {
  ecq::detail::balanced_scale_search search(1.0F, 0x1p-10F, 1, 1.0);
  while (!search.finished()) {
    const auto scale = static_cast<double>(search.scale());
    const double ratio = scale < 1.15 ? 0.5 : scale > 1.3 ? 2 : 1 + 1e-7;
    search.take({.distortion = ratio / scale, .kept = 1});
  }
  EXPECT_GE(search.scale(), 1.15F);
  EXPECT_LE(search.scale(), 1.3F);
}

TEST(RowRoot, TakesFewEvaluations) {
  const auto weights = ecq_test::student_t4(100, 1024);
  const ecq::weights_view view = matrix_view<const float>(weights.data(), 100, 1024);
  double total = 0;
  for (const float weight : weights) total += static_cast<double>(std::abs(weight));
  for (const double lambda : {3.9, 14.5, 58.0, 256.0}) {
    std::size_t evaluations = 0;
    const auto layout = ecq::per_channel{}.layout(100, 1024);
    EXPECT_TRUE(ecq::detail::for_each_group(
        cpu{}, view, layout, [&](std::size_t, const ecq::detail::group_weights& group) -> ecq::result<void> {
          const double unit = std::exp2(group.exponent());
          const double balance = lambda * 4 * total / (100 * 1024) / unit;
          const double start = std::sqrt(balance * 4 * 512 * *group.total<ecq::relative_l1>() / 1024);
          const ecq::detail::balanced_scale_search search(static_cast<float>(start), group.largest() / 448, 1, balance);
          const auto scale = ecq::detail::balanced_scale(search, [&](float scale_here) {
            ++evaluations;
            return group.at<ecq::fp8_e4m3, ecq::relative_l1>(scale_here);
          });
          EXPECT_TRUE(scale);
          return {};
        }));
    EXPECT_GE(evaluations, 100U) << lambda;
    EXPECT_LE(evaluations, 450U) << lambda;
  }
}

TEST(RowRoot, ScalesFollowTheWeights) {
  const auto weights = ecq_test::row_varying(16, 512);
  const auto layout = ecq::per_channel{}.layout(16, 512);
  for (const float factor : {0x1p-100F, 0x1p+100F}) {
    auto scaled = weights;
    for (float& weight : scaled) weight *= factor;
    const auto before = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{14.5}, weights, layout);
    const auto after = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{14.5}, scaled, layout);
    for (std::size_t row = 0; row < 16; ++row) EXPECT_EQ(after[row], before[row] * factor);
  }
}

TEST(RowRoot, OutliersLeaveTheOtherRowsAlone) {
  constexpr std::size_t rows = 100, columns = 512;
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto layout = ecq::per_channel{}.layout(rows, columns);
  const auto before = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{14.5}, weights, layout);
  for (const float outlier : {1e4F, 1e16F, 1e30F, 3e38F}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{columns}}) {
      for (const std::size_t outlying : {1U, 10U}) {
        auto changed = weights;
        for (std::size_t row = 0; row < outlying; ++row) {
          std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(row * columns), count, outlier);
        }
        const auto after = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{14.5}, changed, layout);
        // Each outlying row adds to the norm of the matrix at most as much as 128 of the larger ones among all rows.
        for (std::size_t row = outlying; row < rows; ++row) {
          EXPECT_GE(after[row], before[row] * 0.99F) << outlier << " in row " << row;
          EXPECT_LE(after[row], before[row] * 12.0F) << outlier << " in row " << row;
        }
      }
    }
  }
}

TEST(BalanceLimit, IsFarAboveWhatEnoughGroupsReach) {
  const auto limit_of = [](const std::vector<double>& numbers) {
    return ecq::detail::balance_limit_of(numbers.size(), [&](std::size_t i) { return numbers[i]; });
  };
  EXPECT_EQ(limit_of({1.0}), 128.0);
  EXPECT_EQ(limit_of({1e30, 1.5}), 128.0) << "one of two is no majority";
  EXPECT_EQ(limit_of({0.0, 1.0, 0.0}), 128.0) << "groups of zeros are none";
  std::vector<double> many(80, 3.9);  // between 2 and 4
  EXPECT_EQ(limit_of(many), 256.0);
  for (std::size_t i = 0; i < 10; ++i) many[7 * i] = 1e200;
  EXPECT_EQ(limit_of(many), 256.0) << "an eighth stands out";
  many[1] = 1e200;
  EXPECT_GT(limit_of(many), 1e200);
  EXPECT_GT(limit_of({}), 0.0);
  EXPECT_TRUE(std::isfinite(limit_of({1e308, 1e308})));
}

TEST(RowRoot, LambdaZeroIsAbsMax) {
  const auto weights = ecq_test::gaussian(16, 512);
  const auto layout = ecq::per_channel{}.layout(16, 512);
  EXPECT_EQ(scales_of<ecq::int8>(ecq::row_root<>{0}, weights, layout),
            scales_of<ecq::int8>(ecq::absmax_search{}, weights, layout));
}

TEST(RowRoot, RefusesLambdasAndLayoutsThatMakeNoSense) {
  const auto weights = ecq_test::gaussian(4, 8);
  const matrix_view<const float> view(weights.data(), 4, 8);
  std::vector<float> scales(4);
  const auto layout = ecq::per_channel{}.layout(4, 8);
  for (const double lambda :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto refused = ecq::row_root<>{lambda}.search<ecq::int8>(cpu{}, view, layout, scales);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
  for (const ecq::group_layout& wrong : {ecq::group_layout{4, 8, 0, 8}, ecq::group_layout{4, 8, 1, 0},
                                         ecq::group_layout{4, 9, 1, 9}, ecq::group_layout{2, 8, 1, 8}}) {
    const auto refused = ecq::row_root<>{1}.search<ecq::int8>(cpu{}, view, wrong, scales);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
}

/// The published relation of lambda and bits (EntQuant, lambda grid), measured on N(0, 0.02^2).
TEST(RowRootFigures, BitsOfGaussianWeights) {
  const auto weights = ecq_test::gaussian(1024, 1024);
  double sparsity = 0;
  unsigned unique_values = 256;
  for (const auto& [lambda, bits] : {std::pair{0.5, 5.33},
                                     {1.0, 4.87},
                                     {3.9, 3.91},
                                     {7.0, 3.49},
                                     {14.5, 2.99},
                                     {30.0, 2.52},
                                     {58.0, 2.10},
                                     {128.0, 1.66},
                                     {256.0, 1.34}}) {
    const auto figures = figures_of<ecq::fp8_e4m3>(at(lambda), weights, 1024);
    EXPECT_NEAR(figures.bits, bits, 0.03) << lambda;
    EXPECT_GT(figures.sparsity, sparsity) << lambda;
    EXPECT_LT(figures.unique_values, unique_values) << lambda;
    sparsity = figures.sparsity;
    unique_values = figures.unique_values;
  }
  EXPECT_NEAR(figures_of<ecq::fp8_e4m3>(at(0), weights, 1024).bits, 6.48, 0.03);
}

/// On the subnormal grid FP8 is a uniform quantiser, as Int8 is everywhere.
TEST(RowRoot, FormatsAgreeAtLowRates) {
  const auto weights = ecq_test::gaussian(256, 512);
  for (const double lambda : {14.5, 58.0, 256.0}) {
    const auto e4m3 = figures_of<ecq::fp8_e4m3>(at(lambda), weights, 256);
    EXPECT_NEAR(e4m3.bits, figures_of<ecq::int8>(at(lambda), weights, 256).bits, 0.01);
    EXPECT_NEAR(e4m3.bits, figures_of<ecq::fp8_e5m2>(at(lambda), weights, 256).bits, 0.01);
  }
}

TEST(RowRoot, FactorsOfRowsAreThoseOfLambda) {
  const auto weights = ecq_test::row_varying(6, 512);
  const std::vector<double> factors = {1, 0.125, 1, 8, 64, 1};
  for (const auto& layout : {ecq::per_channel{}.layout(6, 512), ecq::per_group{100}.layout(6, 512)}) {
    const auto divided = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{10, factors}, weights, layout);
    for (std::size_t row = 0; row < 6; ++row) {
      const auto alike = scales_of<ecq::fp8_e4m3>(ecq::row_root<>{10 * factors[row]}, weights, layout);
      for (std::size_t group = row * layout.groups_across(); group < (row + 1) * layout.groups_across(); ++group) {
        EXPECT_EQ(divided[group], alike[group]) << row;
      }
    }
  }
}

TEST(RowRoot, FactorsOfRowsThatDoNotFitAreErrors) {
  const auto weights = ecq_test::gaussian(6, 64);
  const auto fails = [&](const std::vector<double>& factors, const ecq::group_layout& layout) {
    std::vector<float> scales(layout.count());
    const auto done = ecq::row_root<>{10, factors}.search<ecq::fp8_e4m3>(
        cpu{}, matrix_view<const float>(weights.data(), 6, 64), layout, std::span<float>(scales));
    return !done && done.error().code() == ecq::errc::invalid_argument;
  };
  const auto rows = ecq::per_channel{}.layout(6, 64);
  EXPECT_FALSE(fails(std::vector<double>(6, 2), rows));
  EXPECT_TRUE(fails(std::vector<double>(5, 2), rows));
  EXPECT_TRUE(fails(std::vector<double>(7, 2), rows));
  EXPECT_TRUE(fails(std::vector<double>(6, 2), ecq::per_tensor{}.layout(6, 64)));
  for (const double bad : {0.0, -1.0, 1e30, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(fails({1, 1, bad, 1, 1, 1}, rows)) << bad;
  }
}

TEST(RowRoot, GranularitiesAgreeWhereRowsAreAlike) {
  const auto weights = ecq_test::gaussian(256, 512);
  const double bits = figures_of<ecq::fp8_e4m3>(at(14.5), weights, 256).bits;
  const auto tensor = figures_of<ecq::fp8_e4m3>(at<ecq::relative_l1, ecq::per_tensor>(14.5), weights, 256);
  const auto group = figures_of<ecq::fp8_e4m3>(at<ecq::relative_l1, ecq::per_group>(14.5, {128}), weights, 256);
  EXPECT_NEAR(tensor.bits, bits, 0.02);
  EXPECT_NEAR(group.bits, bits, 0.03);
}

TEST(RowRootFigures, SquaredErrorGivesMoreSignalAtEqualBits) {
  const auto weights = ecq_test::row_varying(512, 512);
  const auto l1 = figures_of<ecq::fp8_e4m3>(at(14.5), weights, 512);
  double low = 0.1;
  double high = 1000;
  while (high / low > 1.001) {
    const double lambda = std::sqrt(low * high);
    (figures_of<ecq::fp8_e4m3>(at<ecq::squared_error>(lambda), weights, 512).bits > l1.bits ? low : high) = lambda;
  }
  const auto l2 = figures_of<ecq::fp8_e4m3>(at<ecq::squared_error>(high), weights, 512);
  EXPECT_NEAR(l2.bits, l1.bits, 0.01);
  EXPECT_GT(l2.sqnr_db, l1.sqnr_db);
}

}  // namespace
