#include "ecq/quantize/lbfgs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ecq/quantize/row_root.hpp"
#include "support/quantized.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;
using ecq_test::figures_of;

template <class Format>
void expect_agreement(const std::vector<float>& weights, std::size_t rows, double lambda) {
  const ecq::scaled_quantizer<ecq::row_root<>> by_root{{lambda}, {}};
  const ecq::scaled_quantizer<ecq::lbfgs<>> by_lbfgs{{lambda}, {}};
  EXPECT_NEAR(figures_of<Format>(by_root, weights, rows).bits, figures_of<Format>(by_lbfgs, weights, rows).bits, 0.02)
      << Format::name << " at lambda " << lambda;
}

TEST(Lbfgs, AgreesWithTheRowRootOnGaussianWeights) {
  const auto weights = ecq_test::gaussian(96, 1024);
  for (const double lambda : {0.5, 14.5, 256.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {3.9, 58.0}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(Lbfgs, AgreesWithTheRowRootOnStudentWeights) {
  const auto weights = ecq_test::student_t4(96, 1024);
  for (const double lambda : {1.0, 30.0, 128.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {2.0, 14.5}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(Lbfgs, AgreesWithTheRowRootOnRowsOfDifferentScale) {
  const auto weights = ecq_test::row_varying(96, 1024);
  for (const double lambda : {0.5, 14.5, 256.0}) expect_agreement<ecq::fp8_e4m3>(weights, 96, lambda);
  for (const double lambda : {7.0, 128.0}) expect_agreement<ecq::int8>(weights, 96, lambda);
}

TEST(Lbfgs, AgreesWithTheRowRootAtFullSize) {
  expect_agreement<ecq::fp8_e4m3>(ecq_test::gaussian(1024, 1024), 1024, 14.5);
}

TEST(Lbfgs, SharesScalesAsAsked) {
  const auto weights = ecq_test::gaussian(64, 256);
  const ecq::scaled_quantizer<ecq::row_root<>, ecq::per_tensor> by_root{{14.5}, {}};
  const ecq::scaled_quantizer<ecq::lbfgs<>, ecq::per_tensor> by_lbfgs{{14.5}, {}};
  EXPECT_NEAR(figures_of<ecq::int8>(by_root, weights, 64).bits, figures_of<ecq::int8>(by_lbfgs, weights, 64).bits,
              0.02);
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
