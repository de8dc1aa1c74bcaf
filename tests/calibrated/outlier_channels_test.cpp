// Inputs like those of large models: heavy tails, a few channels far louder than the others, and tokens that are louder
// as a whole. Error feedback must not lose to EntQuant where a few strange tokens dominate its moments.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/input_factor.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/calibrated/step_by_rms.hpp"
#include "ecq/calibrated/trellis_feedback.hpp"
#include "ecq/calibrated/trellis_order.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/trellis_codes.hpp"
#include "ecq/quantize/trellis_indices.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t rows = 96;
constexpr std::size_t columns = 512;

/// Returns inputs in which every 50th channel is 20 to 100 times as loud as the others and every 64th token 10 times as
/// loud. All have the tails of a t distribution of 4 degrees of freedom, and neighbouring channels share half of their
/// variance.
std::vector<float> inputs_with_outliers(std::size_t tokens, std::uint64_t seed) {
  std::vector<float> inputs = ecq_test::student_t4(tokens, columns, seed, 1.0F);
  for (std::size_t token = 0; token < tokens; ++token) {
    float* const input = &inputs[token * columns];
    for (std::size_t column = columns; column-- > 1;) input[column] += input[column - 1];
    for (std::size_t column = 0; column < columns; column += 50) input[column] *= static_cast<float>(20 + column % 81);
    if (token % 64 == 0) {
      for (std::size_t column = 0; column < columns; ++column) input[column] *= 10;
    }
  }
  return inputs;
}

/// Returns the mean over tokens and rows of the squared error of outputs, relative to that of zeros.
double output_error(const std::vector<float>& weights, const std::vector<float>& decoded,
                    const std::vector<float>& inputs) {
  double error = 0, all = 0;
  for (std::size_t first = 0; first < inputs.size(); first += columns) {
    for (std::size_t row = 0; row < rows; ++row) {
      double wrong = 0, right = 0;
      for (std::size_t column = 0; column < columns; ++column) {
        const auto input = static_cast<double>(inputs[first + column]);
        const auto weight = static_cast<double>(weights[row * columns + column]);
        right += weight * input;
        wrong += (static_cast<double>(decoded[row * columns + column]) - weight) * input;
      }
      error += wrong * wrong;
      all += right * right;
    }
  }
  return error / all;
}

struct outcome {
  double bits = 0;  ///< entropy of the codes plus 16 bits per scale
  std::vector<float> weights;
};

template <class Format, class Quantizer>
outcome quantized(const Quantizer& quantizer, matrix_view<const float> weights) {
  std::vector<std::uint8_t> codes(rows * columns);
  std::vector<bf16> scales(quantizer.layout(rows, columns).count());
  const auto done = quantizer.template quantize<Format>(cpu{}, weights, codes, scales);
  EXPECT_TRUE(done) << done.error().to_string();
  outcome made;
  made.bits = ecq::entropy_of(*ecq::count_codes(cpu{}, codes)) +
              16.0 * static_cast<double>(scales.size()) / static_cast<double>(codes.size());
  for (std::size_t at = 0; at < codes.size(); ++at) {
    made.weights.push_back(Format::decode(codes[at]) * static_cast<float>(scales[at / columns * scales.size() / rows]));
  }
  return made;
}

outcome quantized_along_trellis(matrix_view<const float> weights, const ecq::input_moments& moments, double lambda) {
  using ecq::detail::trellis_feedback;
  const ecq::trellis walk{};
  const std::vector<ecq::detail::sampled_weights> sample{{.values = {}, .weights = weights}};
  const auto bits = ecq::detail::find_index_bits(cpu{}, walk, sample, lambda);
  const auto steps = ecq::detail::trellis_steps(cpu{}, weights, lambda, {}, false);
  const ecq::detail::trellis_order order(columns, 0);
  const auto factor = ecq::input_factor::make(
      cpu{}, ecq::detail::in_order(moments, order.columns()),
      {.damping = std::max(0.01, trellis_feedback::damping_share * ecq::step_by_rms{lambda}.damping())});
  EXPECT_TRUE(bits && steps && factor);
  const trellis_feedback how{.input = &*factor, .walk = walk, .bits = *bits, .step = steps->front()};
  std::vector<std::uint8_t> codes(rows * columns);
  const auto done = how.quantize(cpu{}, weights, codes);
  EXPECT_TRUE(done) << done.error().to_string();
  outcome made;
  made.bits = ecq::entropy_of(ecq::counts_of_indices(*ecq::count_codes(cpu{}, codes)));
  for (const std::uint8_t code : codes) made.weights.push_back(ecq::int8::decode(code) * how.step);
  return made;
}

class OutlierChannelFigures : public testing::TestWithParam<double> {};

TEST_P(OutlierChannelFigures, LeaveFeedbackNoWorseThanEntQuant) {
  const auto values = ecq_test::gaussian(rows, columns, 5);
  const matrix_view<const float> weights(values.data(), rows, columns);
  const auto seen = inputs_with_outliers(20 * columns, 1), unseen = inputs_with_outliers(2048, 2);
  auto sums = ecq::moment_sums::create(columns);
  ASSERT_TRUE(sums && sums->add(cpu{}, matrix_view<const float>(seen.data(), seen.size() / columns, columns)));
  const auto moments = std::move(*sums).finish(cpu{});
  ASSERT_TRUE(moments) << moments.error().to_string();

  const auto plain = quantized<ecq::fp8_e4m3>(ecq::entquant{.target_bits = GetParam()}, weights);
  // Steps grow until the rate is the same or lower.
  outcome fed;
  for (double lambda = ecq::detail::expected_lambda(GetParam() + 0.3); fed.weights.empty() || fed.bits > plain.bits;
       lambda *= 1.02) {
    const ecq::step_by_rms rule{lambda};
    const auto scale = rule.scale_of<ecq::int8>(cpu{}, weights);
    const auto factor = ecq::input_factor::make(cpu{}, *moments, {.damping = rule.damping()});
    ASSERT_TRUE(scale && factor);
    fed = quantized<ecq::int8>(ecq::error_feedback{.input = &*factor, .scale = *scale}, weights);
  }
  EXPECT_LE(fed.bits, plain.bits);
  EXPECT_GT(fed.bits, plain.bits - 0.05);
  EXPECT_LE(output_error(values, fed.weights, unseen), output_error(values, plain.weights, unseen));

  outcome along_trellis;
  for (double lambda = ecq::detail::expected_lambda(GetParam() + 0.3);
       along_trellis.weights.empty() || along_trellis.bits > plain.bits; lambda *= 1.02) {
    along_trellis = quantized_along_trellis(weights, *moments, lambda);
  }
  EXPECT_GT(along_trellis.bits, plain.bits - 0.05);
  EXPECT_LE(output_error(values, along_trellis.weights, unseen), output_error(values, plain.weights, unseen));
}

INSTANTIATE_TEST_SUITE_P(Rates, OutlierChannelFigures, testing::Values(2.1, 3.0, 4.0), [](const auto& instance) {
  return "Bits" + std::to_string(static_cast<int>(std::lround(10 * instance.param)));
});

}  // namespace
