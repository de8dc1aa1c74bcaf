// A network of two layers, quantised layer by layer by an engine that sees the inputs of each.

#include "ecq/calibrated/calibrated_method.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/calibrated/step_by_rms.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/pack.hpp"
#include "support/weights.hpp"

namespace {

using ecq::calibration;
using ecq::cpu;
using ecq::errc;
using ecq::int8;
using ecq::matrix_view;
using ecq::named_weights;
using ecq::packed_block;
using floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using index = Eigen::Index;

constexpr std::size_t width = 128, tokens = 2048;

/// Network y = outer |inner x| with inputs x whose columns are strongly correlated.
struct network {
  std::vector<float> inner = ecq_test::gaussian(width, width, 1, 0.1F);
  std::vector<float> outer = ecq_test::gaussian(width, width, 2, 0.1F);
  std::vector<float> inputs = correlated(3);

  static std::vector<float> correlated(std::uint64_t seed) {
    constexpr std::size_t sources = width / 8;
    const floats common = map(ecq_test::gaussian(tokens, sources, seed, 1.0F), sources);
    const floats mixing = map(ecq_test::gaussian(sources, width, 99, 0.25F), width);
    const floats all = common * mixing + 0.3F * map(ecq_test::gaussian(tokens, width, seed + 7, 1.0F), width);
    return {all.data(), all.data() + all.size()};
  }
  static floats map(const std::vector<float>& values, std::size_t columns) {
    return Eigen::Map<const floats>(values.data(), static_cast<index>(values.size() / columns),
                                    static_cast<index>(columns));
  }
  static floats hidden(const floats& x, const floats& first) { return (x * first.transpose()).cwiseAbs(); }

  std::vector<named_weights> matrices() const {
    return {{"inner", matrix_view<const float>(inner.data(), width, width)},
            {"outer", matrix_view<const float>(outer.data(), width, width)}};
  }
};

/// Forward pass of the network.
class network_pass final : public ecq::calibration_pass {
 public:
  explicit network_pass(const network& of) : of_(of) {}

  int restarts = 0;
  std::vector<std::string> order{"inner", "outer"};
  std::string beside_first;  ///< name of another matrix with the first input
  bool loses_moments = false;

  ecq::result<void> restart() override {
    ++restarts;
    at_ = 0;
    inner_ = network::map(of_.inner, width);
    return {};
  }

  ecq::result<std::vector<std::string>> next() override {
    if (at_ == order.size()) return std::vector<std::string>{};
    const std::string beside = at_ == 0 && !beside_first.empty() ? beside_first : "another";
    return std::vector<std::string>{beside, order[at_++]};
  }

  ecq::result<ecq::input_moments> moments() override {
    ECQ_TRY(sums, ecq::moment_sums::create(width, true));
    const floats x = network::map(of_.inputs, width);
    const floats seen = at_ == 1 ? x : network::hidden(x, inner_);
    const floats original = at_ == 1 ? x : network::hidden(x, network::map(of_.inner, width));
    ECQ_CHECK(sums.add({}, {seen.data(), tokens, width}, {original.data(), tokens, width}));
    auto made = std::move(sums).finish({});
    if (made && loses_moments) made->second.resize(10);
    return made;
  }

  ecq::result<void> replace(const std::string& name, matrix_view<const float> weights) override {
    if (at_ == 1 && name == beside_first) return {};
    EXPECT_EQ(name, order[at_ - 1]);
    if (name == "inner") inner_ = Eigen::Map<const floats>(weights.data(), width, width);
    return {};
  }

 private:
  const network& of_;
  std::size_t at_ = 0;
  floats inner_;
};

class CalibratedMethod : public testing::Test {
 protected:
  network net;
  std::shared_ptr<network_pass> pass = std::make_shared<network_pass>(net);

  ecq::result<packed_block> compressed(const ecq::compression_method& method, std::vector<named_weights> matrices,
                                       const cpu& backend = {}) const {
    return ecq::detail::compress_block(backend, method, matrices, {.chunk_bits = 12},
                                       ecq::detail::encode_function_of<ecq::rans>);
  }
  ecq::result<packed_block> calibrated(const calibration& how, std::vector<named_weights> matrices,
                                       const cpu& backend = {}) const {
    const ecq::calibrated_method<int8> method(how);
    ECQ_CHECK(method.check());
    return compressed(method, std::move(matrices), backend);
  }

  static std::vector<float> decoded(const packed_block& block, std::size_t matrix) {
    std::vector<float> weights(width * width);
    const auto done = ecq::decompress(cpu{}, block, matrix, matrix_view(weights.data(), width, width));
    EXPECT_TRUE(done) << done.error().to_string();
    return weights;
  }

  /// Returns the squared error of the network's outputs for inputs that the calibration has not seen, relative to the
  /// exact outputs. The network's matrices are number `first` and the next one of the block.
  double error_of(const packed_block& block, std::size_t first = 0) const {
    const floats x = network::map(network::correlated(1000), width);
    const auto run = [&](const std::vector<float>& inner, const std::vector<float>& outer) -> floats {
      return network::hidden(x, network::map(inner, width)) * network::map(outer, width).transpose();
    };
    const floats right = run(net.inner, net.outer);
    return static_cast<double>((run(decoded(block, first), decoded(block, first + 1)) - right).squaredNorm() /
                               right.squaredNorm());
  }
};

using CalibratedMethodFigures = CalibratedMethod;

TEST_F(CalibratedMethodFigures, LosesFarLessAtTheSameBits) {
  for (const double bits : {3.0, 4.0}) {
    const auto plain =
        compressed(**ecq::any_method(ecq::dtype::int8, ecq::entquant{.target_bits = bits}).get(), net.matrices());
    const auto made = calibrated({.pass = pass, .target_bits = bits}, net.matrices());
    const auto uncorrected = calibrated({.pass = pass, .target_bits = bits, .correction = 0}, net.matrices());
    ASSERT_TRUE(plain && made && uncorrected) << made.error().to_string();
    EXPECT_NEAR(made->bits_per_weight(), bits, 0.02);
    EXPECT_LT(error_of(*made), 0.5 * error_of(*plain)) << bits;
    EXPECT_LT(error_of(*made), error_of(*uncorrected)) << bits;
  }
}

TEST_F(CalibratedMethodFigures, LosesLessAlongATrellis) {
  for (const double bits : {2.1, 3.0}) {
    const auto rounded = calibrated({.pass = pass, .target_bits = bits}, net.matrices());
    const auto made = calibrated({.pass = pass, .target_bits = bits, .state_bits = 3}, net.matrices());
    ASSERT_TRUE(rounded && made) << made.error().to_string();
    EXPECT_NEAR(made->bits_per_weight(), bits, 0.03);
    EXPECT_LT(error_of(*made), 0.9 * error_of(*rounded)) << bits;
  }
  EXPECT_EQ(ecq::calibrated_method<int8>({.pass = pass, .target_bits = 3, .state_bits = 4}).settings(),
            "int8, error feedback, trellis of 16 states, bits 3.000000");
}

TEST_F(CalibratedMethod, TakesMatricesAlongATrellisWhereverTheyBegin) {
  pass->beside_first = "odd";
  const calibration how{.pass = pass, .lambda = 14.5, .state_bits = 3};
  const auto aligned = calibrated(how, net.matrices());
  ASSERT_TRUE(aligned);
  for (const std::size_t rows : {1U, 5U, 31U}) {
    std::vector<named_weights> matrices = net.matrices();
    matrices.insert(matrices.begin(), {"odd", matrix_view<const float>(net.inner.data(), rows, width)});
    const auto made = calibrated(how, matrices, {.threads = 2});
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_LT(error_of(*made, 1), 1.05 * error_of(*aligned)) << rows;
    EXPECT_NEAR(made->bits_per_weight(), aligned->bits_per_weight(), 0.05) << rows;
  }
}

TEST_F(CalibratedMethod, GivesTheSameCodesInEveryOrder) {
  for (const std::optional<unsigned> state_bits : {std::optional<unsigned>(), std::optional(3U)}) {
    const calibration how{.pass = pass, .lambda = 14.5, .state_bits = state_bits};
    pass->restarts = 0;
    const auto forward = calibrated(how, net.matrices());
    EXPECT_EQ(pass->restarts, 1);
    auto turned = net.matrices();
    std::swap(turned[0], turned[1]);
    const auto backward = calibrated(how, turned, {.threads = 2});
    ASSERT_TRUE(forward && backward);
    EXPECT_EQ(decoded(*forward, 0), decoded(*backward, 1));
    EXPECT_EQ(decoded(*forward, 1), decoded(*backward, 0));
  }
}

TEST_F(CalibratedMethod, BeginsAgainForAnotherLambda) {
  const ecq::calibrated_method<int8> method({.pass = pass, .lambda = 14.5});
  const auto matrices = net.matrices();
  const std::span of_stream(matrices);
  const auto prepared = method.prepare({}, {&of_stream, 1}, {});
  ASSERT_TRUE(prepared);
  ecq::packed_matrix described;
  described.scales.resize(1);
  const auto codes_at = [&](std::size_t number, double bits_too_many) {
    ecq::rate_correction correction(3);
    EXPECT_EQ(correction.again({3 + bits_too_many, 1U << 24, false}), bits_too_many != 0);
    std::vector<std::byte> codes(width * width);
    EXPECT_TRUE((*prepared)->encode({}, number, matrices[number].weights, correction, described, codes));
    return codes;
  };
  const auto first = codes_at(0, 0);
  const auto second = codes_at(1, 0);
  EXPECT_EQ(pass->restarts, 1);
  EXPECT_NE(codes_at(1, 0.5), second);
  EXPECT_EQ(pass->restarts, 2);
  EXPECT_EQ(codes_at(1, 0), second);
  EXPECT_EQ(codes_at(0, 0), first);
  EXPECT_EQ(codes_at(0, 0), first);
  EXPECT_EQ(pass->restarts, 4);
}

TEST_F(CalibratedMethod, TakesLambdasTimesFactorsAndExactWeights) {
  auto matrices = net.matrices();
  matrices[1].lambda_factor = 4;
  const std::vector<std::uint64_t> exact{5, 900};
  matrices[0].weights = matrices[0].weights.with_exact(exact);
  const auto made = calibrated({.pass = pass, .lambda = 14.5}, matrices);
  ASSERT_TRUE(made) << made.error().to_string();
  for (std::size_t matrix = 0; matrix < 2; ++matrix) {
    const auto scale = ecq::step_by_rms{matrix == 0 ? 14.5 : 58}.scale_of<int8>({}, matrices[matrix].weights);
    ASSERT_TRUE(scale);
    EXPECT_EQ(made->matrices[matrix].scales.front().bits, ecq::bf16(*scale).bits);
  }
  const auto weights = decoded(*made, 0);
  for (const std::uint64_t position : exact) EXPECT_EQ(weights[position], net.inner[position]);
}

TEST_F(CalibratedMethod, TakesMatricesWithoutRowsAndOfZeros) {
  const std::vector<float> zeros(width * width);
  const std::vector<named_weights> matrices{{"inner", matrix_view<const float>(zeros.data(), width, width)},
                                            {"outer", matrix_view<const float>(zeros.data(), 0, width)}};
  const auto made = calibrated({.pass = pass, .lambda = 14.5}, matrices);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(decoded(*made, 0), zeros);
}

TEST_F(CalibratedMethod, RefusesWhatMakesNoSense) {
  const auto refused = [&](const calibration& how, const std::vector<named_weights>& matrices, errc code,
                           const std::string& said) {
    SCOPED_TRACE(said);
    const auto made = calibrated(how, matrices);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), code);
    EXPECT_NE(made.error().to_string().find(said), std::string::npos) << made.error().to_string();
  };
  const auto matrices = net.matrices();
  refused({.pass = nullptr, .target_bits = 3.0}, matrices, errc::invalid_argument, "needs a forward pass");
  refused({.pass = pass}, matrices, errc::invalid_argument, "target bits or a lambda");
  refused({.pass = pass, .target_bits = 3.0, .lambda = 1.0}, matrices, errc::invalid_argument, "bits or a lambda");
  refused({.pass = pass, .lambda = -1.0}, matrices, errc::invalid_argument, "lambda is -1");
  refused({.pass = pass, .lambda = 1.0, .correction = 2}, matrices, errc::invalid_argument, "correction is 2");
  refused({.pass = pass, .lambda = 1.0, .factor = {.least_tokens_per_column = 20}}, matrices, errc::invalid_argument,
          "input of tensor 'inner'");
  refused({.pass = pass, .lambda = 1.0}, {matrices[0], matrices[0]}, errc::invalid_argument,
          "2 matrices have only 1 different names");
  const named_weights other{"other", matrices[0].weights};
  refused({.pass = pass, .lambda = 1.0}, {matrices[0], other}, errc::not_found,
          "tensor 'other': calibration has no input for it");
  const named_weights narrow{"inner", matrix_view<const float>(net.inner.data(), width, width / 2)};
  refused({.pass = pass, .lambda = 1.0}, {narrow}, errc::invalid_argument, "tensor 'inner': inputs have 128 columns");
  refused({.pass = pass, .lambda = 1.0, .state_bits = 6}, matrices, errc::invalid_argument, "2^6 states");
  refused({.pass = pass, .lambda = 1e31}, matrices, errc::invalid_argument, "not from 0 to 1e30");
  pass->loses_moments = true;
  for (const std::optional<unsigned> states : {std::optional<unsigned>(), std::optional<unsigned>(4)}) {
    refused({.pass = pass, .lambda = 1.0, .state_bits = states}, matrices, errc::invalid_argument,
            "10 second and 16384 cross moments do not fit 128 columns");
  }
  pass->loses_moments = false;
  pass->order = {"inner", "inner"};
  refused({.pass = pass, .lambda = 1.0}, matrices, errc::invalid_argument, "calibration named tensor 'inner' twice");
}

TEST(StepByRms, KeepsAllWeightsOnTheGrid) {
  const auto weights = ecq_test::gaussian(64, 64, 5, 0.1F);
  const ecq::weights_view view = matrix_view<const float>(weights.data(), 64, 64);
  const float most = std::fabs(*std::max_element(
      weights.begin(), weights.end(), [](float left, float right) { return std::fabs(left) < std::fabs(right); }));
  const auto finest = ecq::step_by_rms{0}.scale_of<int8>({}, view);
  ASSERT_TRUE(finest);
  EXPECT_FLOAT_EQ(*finest, most / 127);
  const auto coarse = ecq::step_by_rms{14.5}.scale_of<int8>({}, view),
             coarser = ecq::step_by_rms{58}.scale_of<int8>({}, view);
  ASSERT_TRUE(coarse && coarser);
  EXPECT_NEAR(*coarse / 0.1F, 0.516, 0.02);
  EXPECT_FLOAT_EQ(*coarser, 2 * *coarse);
}

}  // namespace
