#include "ecq/quantize/lbfgs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/row_root.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::matrix_view;

/// Result of a search: stored scales, the entropy of the codes, and the loss of lbfgs's description, in FP64.
struct outcome {
  std::vector<bf16> scales;
  double bits = 0;
  double loss = 0;
};

template <class Format, class Search, class Granularity>
outcome outcome_of(const ecq::scaled_quantizer<Search, Granularity>& quantizer, const std::vector<float>& weights,
                   std::size_t rows) {
  const std::size_t columns = weights.size() / rows;
  const ecq::group_layout layout = quantizer.layout(rows, columns);
  outcome out;
  out.scales.resize(layout.count());
  std::vector<std::uint8_t> codes(weights.size());
  EXPECT_TRUE(quantizer.template quantize<Format>(
      cpu{.threads = 2}, matrix_view<const float>(weights.data(), rows, columns), codes, out.scales));
  out.bits = ecq::analyse_codes(codes).entropy;
  double error = 0, total = 1e-6, magnitudes = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t group =
        i / columns / layout.rows_per_group * layout.groups_across() + i % columns / layout.columns_per_group;
    const auto code = static_cast<double>(Format::decode(codes[i]));
    const auto weight = static_cast<double>(weights[i]);
    error += std::abs(code * static_cast<double>(static_cast<float>(out.scales[group])) - weight);
    total += std::abs(weight);
    magnitudes += std::abs(code);
  }
  out.loss = error / total + quantizer.scale_search.lambda * ecq::l1_norm::weight<Format>() * magnitudes /
                                 static_cast<double>(weights.size());
  return out;
}

/// Expects both searches to end where the straight-through gradient is zero: row_root finds that scale within 0.2 %,
/// L-BFGS stops where its line search stalls. Its loss may lie slightly below row_root's, since that gradient is not
/// the loss's own.
template <class Format, class Granularity = ecq::per_channel>
void expect_agreement(const std::vector<float>& weights, std::size_t rows, double lambda) {
  SCOPED_TRACE(std::string(Format::name) + " at lambda " + std::to_string(lambda));
  const auto by_root =
      outcome_of<Format>(ecq::scaled_quantizer<ecq::row_root<>, Granularity>{{lambda}, {}}, weights, rows);
  const auto by_lbfgs =
      outcome_of<Format>(ecq::scaled_quantizer<ecq::lbfgs<>, Granularity>{{lambda}, {}}, weights, rows);
  EXPECT_NEAR(by_lbfgs.bits, by_root.bits, 0.02);
  testing::Test::RecordProperty(std::string(Format::name) + "_at_" + std::to_string(lambda),
                                std::to_string(by_lbfgs.bits - by_root.bits));
  EXPECT_LE(by_lbfgs.loss, by_root.loss * 1.002);
  EXPECT_GE(by_lbfgs.loss, by_root.loss * 0.995);
  double octaves = 0;
  for (std::size_t group = 0; group < by_root.scales.size(); ++group) {
    const double apart = std::abs(std::log2(by_lbfgs.scales[group] / by_root.scales[group]));
    EXPECT_LT(apart, 0.2) << "group " << group;
    octaves += apart;
  }
  EXPECT_LT(octaves / static_cast<double>(by_root.scales.size()), 0.03);
}

TEST(LbfgsFigures, AgreesWithTheRowRootOnGaussianWeights) {
  const auto weights = ecq_test::gaussian(96, 1024);
  for (const double lambda : {0.5, 14.5, 256.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {3.9, 58.0}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(LbfgsFigures, AgreesWithTheRowRootOnStudentWeights) {
  const auto weights = ecq_test::student_t4(96, 1024);
  for (const double lambda : {1.0, 30.0, 128.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {2.0, 14.5}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(LbfgsFigures, AgreesWithTheRowRootOnRowsOfDifferentScale) {
  const auto weights = ecq_test::row_varying(96, 1024);
  for (const double lambda : {0.5, 14.5, 256.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {7.0, 128.0}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(LbfgsFigures, AgreesWithTheRowRootAtFullSize) {
  expect_agreement<ecq::fp8_e4m3>(ecq_test::gaussian(1024, 1024), 1024, 14.5);
}

TEST(Lbfgs, SharesScalesAsAsked) {
  expect_agreement<ecq::int8, ecq::per_tensor>(ecq_test::gaussian(64, 256), 64, 14.5);
}

TEST(Lbfgs, DegenerateMatricesGiveUsableScales) {
  const float most = (std::numeric_limits<float>::max)();
  for (const std::vector<float>& weights : std::vector<std::vector<float>>{
           {}, {0.0F}, {0.5F}, {0.0F, 0.0F, 0.0F}, {most, -most}, {most, 1e-38F}, {1e-40F, 1e-45F}, {1.0F, 1.0F}}) {
    const ecq::group_layout layout = ecq::per_channel{}.layout(1, weights.size());
    std::vector<float> scales(layout.count());
    const matrix_view<const float> view(weights.data(), 1, weights.size());
    ASSERT_TRUE(ecq::lbfgs<>{58}.search<ecq::fp8_e4m3>(cpu{}, view, layout, scales));
    for (const float scale : scales) EXPECT_TRUE(std::isnormal(scale) && scale > 0) << scale;
  }
}

TEST(Lbfgs, RefusesParametersThatMakeNoSense) {
  const std::vector<float> weights(8, 1.0F);
  const matrix_view<const float> view(weights.data(), 2, 4);
  std::vector<float> scales(2);
  const auto layout = ecq::per_channel{}.layout(2, 4);
  for (const auto& search :
       {ecq::lbfgs<>{-1}, ecq::lbfgs<>{std::nan("")}, ecq::lbfgs<>{1, 0}, ecq::lbfgs<>{1, 10, 0}}) {
    const auto refused = search.search<ecq::int8>(cpu{}, view, layout, scales);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ecq::errc::invalid_argument);
  }
}

}  // namespace
