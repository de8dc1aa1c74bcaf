#include "ecq/quantize/trellis_codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ecq/entropy/trellis_walk.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::matrix_view;
using ecq::trellis;
namespace detail = ecq::detail;

struct coded {
  double entropy = 0;  ///< of indices
  double sqnr_db = 0;  ///< unbiased
  std::vector<std::uint8_t> codes;
};

coded code_all(const trellis& walk, const std::vector<float>& weights, std::size_t rows, double lambda) {
  const matrix_view matrix(weights.data(), rows, weights.size() / rows);
  const ecq::rate_input input{matrix};
  const auto samples = detail::sample_model({&input, 1}, weights.size(), {});
  const auto bits = detail::find_index_bits(cpu{}, walk, samples, lambda);
  const auto steps = detail::trellis_steps(cpu{}, matrix, lambda, {}, false);
  EXPECT_TRUE(bits && steps && steps->size() == 1);
  coded made{.codes = std::vector<std::uint8_t>(weights.size())};
  const detail::path_costs costs(*bits, detail::trellis_rate_weight);
  EXPECT_TRUE(detail::find_trellis_codes(cpu{.threads = 2}, walk, costs, matrix, *steps, 0, {}, made.codes));
  std::vector<std::uint8_t> indices;
  std::vector<float> decoded;
  for (const std::uint8_t code : made.codes) {
    indices.push_back(ecq::trellis::index(code));
    decoded.push_back(static_cast<float>(static_cast<std::int8_t>(code)) * steps->front());
  }
  made.entropy = ecq::analyse_codes(indices).entropy;
  const auto error = ecq::measure_unbiased_error(
      cpu{}, matrix, matrix_view(std::as_const(decoded).data(), rows, weights.size() / rows));
  made.sqnr_db = error->sqnr_db();
  return made;
}

// Scalar quantisation has 16.4 dB at 3 bits, and no quantiser more than 18.06.
TEST(TrellisCodesFigures, HaveLessNoiseThanRounding) {
  const auto weights = ecq_test::gaussian(512, 512);
  std::array<double, 6> at_3_bits{};
  for (unsigned bits = trellis::min_state_bits; bits <= trellis::max_state_bits; ++bits) {
    const auto made = code_all({.state_bits = bits}, weights, 512, 14.5);
    EXPECT_NEAR(made.entropy, 3.0, 0.05);
    at_3_bits[bits] = made.sqnr_db + 6.02 * (3.0 - made.entropy);
    EXPECT_LT(at_3_bits[bits], 18.06);
    EXPECT_GT(at_3_bits[bits], at_3_bits[bits - 1] + 0.02);
    RecordProperty("states_" + std::to_string(1U << bits), std::to_string(at_3_bits[bits]));
  }
  EXPECT_GT(at_3_bits[2], 17.35);
  EXPECT_GT(at_3_bits[3], 17.42);
}

// Four times the lambda saves about one bit.
TEST(TrellisCodes, TakeFewerBitsWithLambda) {
  const auto weights = ecq_test::gaussian(128, 512);
  EXPECT_NEAR(code_all({}, weights, 128, 14.5 / 4).entropy, 4.0, 0.1);
  EXPECT_NEAR(code_all({}, weights, 128, 58).entropy, 2.0, 0.1);
  EXPECT_LT(code_all({}, weights, 128, 1e6).entropy, 0.01);
}

// Each period is a task, and the first and last may be parts of one.
TEST(TrellisCodes, DoNotDependOnThreadsAndLieOnTheTrellis) {
  const auto all = ecq_test::gaussian(70, 333, 8);
  const trellis walk{.state_bits = 3, .period_bits = 10};
  const detail::path_costs costs(detail::usual_index_bits(), 0.4F);
  std::vector<std::uint8_t> stream(1500);  // zeros lie on it: parity 0 leads from state 0 to 0
  stream.resize(stream.size() + all.size());
  const auto codes = std::span(stream).subspan(1500);
  const matrix_view weights(all.data(), 70, 333);
  const auto states = detail::states_behind(walk, std::as_bytes(std::span(stream).first(1500)));
  const std::vector<float> steps = {0.006F};
  ASSERT_TRUE(detail::find_trellis_codes(cpu{}, walk, costs, weights, steps, 1500, states, codes));
  std::vector<std::uint8_t> others(all.size());
  ASSERT_TRUE(detail::find_trellis_codes({.threads = 3}, walk, costs, weights, steps, 1500, states, others));
  EXPECT_TRUE(std::equal(codes.begin(), codes.end(), others.begin()));
  EXPECT_GT(ecq::analyse_codes(codes).entropy, 3.0);
  std::vector<std::uint8_t> indices(stream.size());
  EXPECT_EQ(detail::indices_of_codes(walk, stream, indices.data(), {}), stream.size());
  for (std::size_t at = 0; at < stream.size(); ++at) {
    ASSERT_EQ(ecq::trellis::index(stream[at]), indices[at]);
  }
}

TEST(TrellisScales, MakeRowsUnbiased) {
  const auto weights = ecq_test::row_varying(40, 256, 2);
  const matrix_view matrix(weights.data(), 40, 256);
  const auto steps = detail::trellis_steps(cpu{}, matrix, 58, {}, false);
  ASSERT_TRUE(steps);
  const float step = steps->front();
  std::vector<std::uint8_t> codes;
  for (const float weight : weights) {
    codes.push_back(static_cast<std::uint8_t>(static_cast<int>(std::trunc(weight / step))));
  }
  const auto gain_left = [&](std::size_t first, std::size_t rows, bf16 scale) {
    double square = 0, product = 0;
    for (std::size_t i = first * 256; i < (first + rows) * 256; ++i) {
      const auto weight = static_cast<double>(weights[i]);
      square += weight * weight;
      product += weight * static_cast<std::int8_t>(codes[i]) * static_cast<double>(static_cast<float>(scale));
    }
    return square / product;
  };
  std::vector<bf16> scales(1);
  ASSERT_TRUE(detail::set_trellis_scales(cpu{}, matrix, codes, *steps, scales));
  EXPECT_NEAR(gain_left(0, 40, scales[0]), 1.0, 0.005);
  EXPECT_GT(static_cast<float>(scales[0]), 1.05F * step);
  scales.resize(40);
  ASSERT_TRUE(detail::set_trellis_scales({.threads = 2}, matrix, codes, std::vector<float>(40, step), scales));
  int met = 0;
  for (std::size_t row = 0; row < 40; ++row) {
    EXPECT_LE(static_cast<float>(scales[row]), 2.01F * step);
    if (static_cast<float>(scales[row]) > 1.99F * step) continue;  // at the limit
    EXPECT_NEAR(gain_left(row, 1, scales[row]), 1.0, 0.005) << row;
    ++met;
  }
  EXPECT_GT(met, 20);
}

TEST(TrellisScales, OfRowsOfZerosAreTheStep) {
  const std::vector<float> weights(300);
  const std::vector<std::uint8_t> codes(300);
  std::vector<bf16> scales(3);
  ASSERT_TRUE(detail::set_trellis_scales(cpu{}, matrix_view(weights.data(), 3, 100), codes,
                                         std::vector<float>(3, 0.25F), scales));
  for (const bf16 scale : scales) EXPECT_EQ(static_cast<float>(scale), 0.25F);
}

TEST(TrellisStep, IsNormalForAnyWeights) {
  constexpr float huge = std::numeric_limits<float>::max();
  for (const float weight : {0.0F, 1e-45F, 1e-38F, 1.0F, huge}) {
    const std::vector<float> weights(10, weight);
    for (const double lambda : {0.0, 14.5, 0x1p20}) {
      for (const bool by_rows : {false, true}) {
        const auto steps = detail::trellis_steps(cpu{}, matrix_view(weights.data(), 2, 5), lambda, {}, by_rows);
        ASSERT_TRUE(steps);
        ASSERT_EQ(steps->size(), by_rows ? 2U : 1U);
        for (const float step : *steps) {
          EXPECT_TRUE(std::isnormal(step) && std::isnormal(1 / step)) << weight << ' ' << lambda;
        }
      }
    }
  }
}

// A large weight makes the step of its own row larger, or that of all rows if they have no scales.
TEST(TrellisStep, ReachesTheLargestWeight) {
  std::vector<float> weights(1000, 1.0F);
  weights[700] = 1000;
  const auto one = detail::trellis_steps(cpu{}, matrix_view(weights.data(), 10, 100), 1e-6, {}, false);
  const auto each = detail::trellis_steps(cpu{}, matrix_view(weights.data(), 10, 100), 1e-6, {}, true);
  ASSERT_TRUE(one && each);
  EXPECT_FLOAT_EQ(one->front(), 1000.0F / 126);
  for (std::size_t row = 0; row < 10; ++row) EXPECT_FLOAT_EQ((*each)[row], (row == 7 ? 1000.0F : 1.0F) / 126);
}

TEST(TrellisStep, NamesWeightsThatAreNotFinite) {
  std::vector<float> weights(10, 1.0F);
  weights[7] = std::numeric_limits<float>::quiet_NaN();
  const auto step = detail::trellis_steps(cpu{}, matrix_view(weights.data(), 2, 5), 14.5, {}, false);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), ecq::errc::non_finite);
  EXPECT_NE(step.error().message().find("row 1, column 2"), std::string::npos) << step.error().message();
}

TEST(IndexBits, AreThoseOfTheCounts) {
  const auto bits = detail::bits_of_indices(std::array<double, 128>{4000, 2000, 1000, 1000});
  EXPECT_NEAR(bits[0], 1.0, 0.01);
  EXPECT_NEAR(bits[1], 2.0, 0.01);
  EXPECT_NEAR(bits[2], 3.0, 0.01);
  for (std::size_t number = 4; number < bits.size(); ++number) EXPECT_GT(bits[number], 15);
  for (const float each : detail::bits_of_indices(std::array<double, 128>{})) EXPECT_EQ(each, 7);
}

}  // namespace
