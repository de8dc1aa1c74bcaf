#include "ecq/quantize/entquant.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ecq/format/int8.hpp"
#include "support/quantized.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::entquant;
using ecq::matrix_view;
using ecq_test::figures_of;

/// The signal-to-noise ratio in dB that a data-free scale search reaches on N(0, 0.02^2), by entropy of the codes.
TEST(EntquantFigures, SignalToNoiseOfGaussianWeights) {
  const auto weights = ecq_test::gaussian(1024, 1024);
  const double scale_bits = 16.0 / 1024;
  for (const auto& [bits, sqnr_db] : {std::pair{4.0, 22.5}, {3.0, 16.4}, {2.1, 10.8}}) {
    const auto figures = figures_of<ecq::fp8_e4m3>(entquant{.target_bits = bits + scale_bits}, weights, 1024);
    EXPECT_NEAR(figures.bits, bits, 0.002);
    EXPECT_NEAR(figures.sqnr_db, sqnr_db, 0.2);
  }
}

TEST(Entquant, FewerBitsMeanFewerValuesAndMoreZeros) {
  const auto weights = ecq_test::student_t4(512, 512);
  double sparsity = 0;
  unsigned unique_values = 256;
  for (const double bits : {5.0, 4.0, 3.0, 2.0}) {
    const auto figures = figures_of<ecq::fp8_e4m3>(entquant{.target_bits = bits}, weights, 512);
    EXPECT_GT(figures.sparsity, sparsity);
    EXPECT_LT(figures.unique_values, unique_values);
    sparsity = figures.sparsity;
    unique_values = figures.unique_values;
  }
}

TEST(Entquant, CorrectsWhatASampleGetsWrong) {
  const auto weights = ecq_test::row_varying(9000, 512);
  const auto figures = figures_of<ecq::fp8_e4m3>(entquant{.target_bits = 3.0}, weights, 9000);
  EXPECT_NEAR(figures.bits + 16.0 / 512, 3.0, 0.005);
}

TEST(Entquant, SharesScalesAsAsked) {
  const auto weights = ecq_test::gaussian(128, 512);
  const auto groups = figures_of<ecq::int8>(
      ecq::basic_entquant<ecq::row_root<>, ecq::per_group>{.target_bits = 3.25, .granularity = {64}}, weights, 128);
  EXPECT_NEAR(groups.bits, 3.0, 0.005);
  const auto whole =
      figures_of<ecq::int8>(ecq::basic_entquant<ecq::row_root<>, ecq::per_tensor>{.target_bits = 3.0}, weights, 128);
  EXPECT_NEAR(whole.bits, 3.0, 0.005);
}

TEST(Entquant, TakesExactlyOneParameter) {
  const std::vector<float> weights(4, 1.0F);
  std::vector<std::uint8_t> codes(4);
  std::vector<ecq::bf16> scales(2);
  for (const entquant& wrong : {entquant{}, entquant{.target_bits = 3.0, .lambda = 14.5}}) {
    const auto refused =
        wrong.quantize<ecq::fp8_e4m3>(cpu{}, matrix_view<const float>(weights.data(), 2, 2), codes, scales);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ecq::errc::invalid_argument);
    EXPECT_NE(refused.error().message().find("target_bits"), std::string::npos);
  }
}

}  // namespace
