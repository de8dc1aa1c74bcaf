#include "ecq/calibrated/error_feedback.hpp"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/LU>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ecq/calibrated/input_moments.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::errc;
using ecq::error_feedback;
using ecq::input_factor;
using ecq::input_moments;
using ecq::matrix_view;
using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using index = Eigen::Index;

matrix matrix_of(const std::vector<float>& values, std::size_t columns) {
  using floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const floats>(values.data(), static_cast<index>(values.size() / columns),
                                  static_cast<index>(columns))
      .cast<double>();
}

matrix matrix_of(const std::vector<double>& values, std::size_t columns) {
  return Eigen::Map<const matrix>(values.data(), static_cast<index>(values.size() / columns),
                                  static_cast<index>(columns));
}

/// Returns inputs whose columns are correlated as in a model: they mix an eighth as many sources as there are columns.
std::vector<float> correlated_inputs(std::size_t tokens, std::size_t columns, std::uint64_t seed) {
  const std::size_t sources = std::max<std::size_t>(1, columns / 8);
  const matrix common = matrix_of(ecq_test::gaussian(tokens, sources, seed, 1.0F), sources);
  const matrix mixing = matrix_of(ecq_test::gaussian(sources, columns, 99, 1.0F), columns);
  const matrix own = matrix_of(ecq_test::gaussian(tokens, columns, seed + 1, 0.5F), columns);
  const matrix all = common * mixing / std::sqrt(static_cast<double>(sources)) + own;
  std::vector<float> inputs;
  for (index token = 0; token < all.rows(); ++token) {
    for (index column = 0; column < all.cols(); ++column) inputs.push_back(static_cast<float>(all(token, column)));
  }
  return inputs;
}

input_moments moments_of(const std::vector<float>& x, std::size_t columns, const std::vector<float>& y = {}) {
  auto sums = ecq::moment_sums::create(columns, !y.empty());
  const auto view = [&](const std::vector<float>& rows) {
    return rows.empty() ? matrix_view<const float>()
                        : matrix_view<const float>(rows.data(), rows.size() / columns, columns);
  };
  EXPECT_TRUE(sums && sums->add(cpu{.threads = 2}, view(x), view(y)));
  auto made = std::move(*sums).finish({});
  EXPECT_TRUE(made);
  return std::move(*made);
}

/// Returns moments that are not computed from data.
input_moments made_moments(const matrix& second) {
  input_moments moments;
  moments.width = static_cast<std::size_t>(second.rows());
  moments.tokens = 1000000;
  moments.second.assign(second.data(), second.data() + second.size());
  return moments;
}

struct coded {
  std::vector<std::uint8_t> codes;
  bf16 scale;
  matrix weights;
};

template <class Format>
coded quantized(const error_feedback& how, const std::vector<float>& weights, std::size_t columns,
                const cpu& backend = {}) {
  const std::size_t rows = weights.size() / columns;
  coded made{std::vector<std::uint8_t>(weights.size()), {}, matrix(rows, columns)};
  const auto done = how.quantize<Format>(backend, matrix_view<const float>(weights.data(), rows, columns), made.codes,
                                         std::span(&made.scale, 1));
  EXPECT_TRUE(done) << done.error().to_string();
  const float zero = error_feedback::zero_of<Format>(made.scale);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    made.weights.data()[i] = static_cast<double>(Format::decode(made.codes[i]) * static_cast<float>(made.scale) + zero);
  }
  return made;
}

input_factor factor_of(const input_moments& moments, const ecq::factor_options& how = {}) {
  auto made = input_factor::make(cpu{.threads = 2}, moments, how);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

/// Returns tr((W - Q) H (W - Q)^T).
double loss_of(const matrix& weights, const matrix& quantized, const matrix& second) {
  const matrix error = weights - quantized;
  return (error * second).cwiseProduct(error).sum();
}

template <class Format>
class ErrorFeedback : public testing::Test {};

struct half_steps : ecq::int8 {  // a user-defined format: multiples of one half
  using int8::int8;
  static constexpr std::string_view name = "half_steps";
  static constexpr float largest = 63.5F;
  static constexpr code_type encode(float value) noexcept { return int8::encode(2 * value); }
  static constexpr float decode(code_type code) noexcept { return int8::decode(code) / 2; }
};

using formats = testing::Types<ecq::int8, ecq::uint8, ecq::uint4, half_steps>;
TYPED_TEST_SUITE(ErrorFeedback, formats);

TYPED_TEST(ErrorFeedback, WithoutAnInputRoundsToNearest) {
  const std::vector<float> weights = ecq_test::gaussian(131, 70);
  const coded made = quantized<TypeParam>({.scale = 0.01F}, weights, 70);
  const auto& grid = ecq::uniform_grid_of<TypeParam>;
  const float step = grid.step * static_cast<float>(made.scale);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float bounded =
        std::clamp(weights[i], static_cast<float>(grid.lowest) * step, static_cast<float>(grid.highest) * step);
    ASSERT_NEAR(made.weights.data()[i], static_cast<double>(bounded), static_cast<double>(step) * 0.5001) << i;
  }
}

TYPED_TEST(ErrorFeedback, OfColumnsThatHaveNothingInCommonRoundsToNearest) {
  const std::vector<float> weights = ecq_test::gaussian(200, 150);
  const coded nearest = quantized<TypeParam>({.scale = 0.01F}, weights, 150);
  matrix second = matrix::Identity(150, 150) * 3;
  for (int round = 0; round < 3; ++round) {  // c I, 0 and a diagonal matrix
    input_moments moments = made_moments(second);
    moments.cross = moments.second;
    const input_factor factor = factor_of(moments);
    EXPECT_EQ(quantized<TypeParam>({.input = &factor, .scale = 0.01F}, weights, 150).codes, nearest.codes);
    if (round == 0) second.setZero();
    if (round == 1) second.diagonal().setLinSpaced(150, 0, 10);
  }
}

TYPED_TEST(ErrorFeedback, LowersTheErrorOfOutputs) {
  constexpr std::size_t columns = 160;
  const std::vector<float> weights = ecq_test::gaussian(192, columns);
  const input_moments moments = moments_of(correlated_inputs(16 * columns, columns, 1), columns);
  const matrix second = matrix_of(moments.second, columns);
  const input_factor factor = factor_of(moments);
  const matrix exact = matrix_of(weights, columns);
  const float scale = 0.012F / ecq::uniform_grid_of<TypeParam>.step;
  const double before = loss_of(exact, quantized<TypeParam>({.scale = scale}, weights, columns).weights, second);
  const double after =
      loss_of(exact, quantized<TypeParam>({.input = &factor, .scale = scale}, weights, columns).weights, second);
  EXPECT_LT(after, 0.5 * before);
}

TEST(ErrorFeedbackOfInt8, GivesTheBytesOfInt8OnItsGrid) {
  const std::vector<float> weights = ecq_test::gaussian(3, 1000);
  const coded made = quantized<ecq::int8>({.scale = 0.007F}, weights, 1000);
  const float inverse = 1.0F / static_cast<float>(made.scale);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_EQ(made.codes[i], ecq::int8::encode(weights[i] * inverse)) << weights[i];
  }
}

// H = [[2, 1], [1, 2]] is damped by 1 % of its mean diagonal, 0.02. An error e = w - q of the first weight then adds
// e * 1 / 2.02 to the target of the second.
TEST(ErrorFeedbackOfInt8, OfTwoColumnsFollowsTheClosedForm) {
  matrix second(2, 2);
  second << 2, 1, 1, 2;
  const input_factor factor = factor_of(made_moments(second));
  EXPECT_NEAR(static_cast<double>(factor.feedback_of_panel(0)[1]), 1 / 2.02, 1e-6);
  // 0.75 becomes 1, an error of -0.25, so the target of 2.6 is 2.6 - 0.1238 = 2.476, which becomes 2. 0.25 becomes 0,
  // and the target of 2.4 is 2.5238.
  const std::vector<float> weights{0.75F, 2.6F, 0.25F, 2.4F};
  const coded made = quantized<ecq::int8>({.input = &factor, .scale = 1}, weights, 2);
  EXPECT_EQ(made.codes, (std::vector<std::uint8_t>{1, 2, 0, 3}));
}

// GPTQ as published, in FP64: U is the upper Cholesky factor of (H + d)^-1.
TEST(ErrorFeedbackOfInt8, IsThatOfTheInverse) {
  constexpr std::size_t columns = 200, rows = 140;
  const std::vector<float> weights = ecq_test::gaussian(rows, columns);
  const input_moments moments = moments_of(correlated_inputs(2048, columns, 5), columns);
  const input_factor factor = factor_of(moments);
  const coded made = quantized<ecq::int8>({.input = &factor, .scale = 0.01F}, weights, columns);
  matrix damped = matrix_of(moments.second, columns);
  damped.diagonal().array() += 0.01 * damped.diagonal().mean();
  const matrix u = matrix(damped.inverse()).llt().matrixU();
  matrix left = matrix_of(weights, columns);
  const double step = static_cast<double>(made.scale);
  std::size_t different = 0;
  for (index column = 0; column < left.cols(); ++column) {
    for (index row = 0; row < left.rows(); ++row) {
      const double q = std::nearbyint(left(row, column) / step) * step;
      const double e = (left(row, column) - q) / u(column, column);
      if (std::fabs(q - made.weights(row, column)) > step / 2) ++different;
      for (index later = column + 1; later < left.cols(); ++later) left(row, later) -= e * u(column, later);
    }
  }
  // A sum that lies almost halfway between two levels may round differently in FP32, which changes all later codes of
  // its row.
  EXPECT_LT(different, rows * columns / 100);
}

TEST(ErrorFeedbackOfInt8, NeverLosesMuchToRounding) {
  for (const std::size_t columns : {1U, 2U, 64U, 65U, 300U}) {
    for (const std::size_t tokens : {1U, 10U, 1000U}) {
      const std::vector<float> weights = ecq_test::student_t4(70, columns, 3 + columns);
      const input_moments moments = moments_of(correlated_inputs(tokens, columns, 7), columns);
      const input_factor factor = factor_of(moments, {.least_tokens_per_column = 0});
      matrix damped = matrix_of(moments.second, columns);
      damped.diagonal().array() += 0.01 * damped.diagonal().mean();
      const matrix exact = matrix_of(weights, columns);
      const double before = loss_of(exact, quantized<ecq::int8>({.scale = 0.01F}, weights, columns).weights, damped);
      const double after =
          loss_of(exact, quantized<ecq::int8>({.input = &factor, .scale = 0.01F}, weights, columns).weights, damped);
      EXPECT_LE(after, before * 1.001) << columns << " columns, " << tokens << " tokens";
    }
  }
}

TEST(ErrorFeedbackOfInt8, ColumnsWithoutInputsAreRoundedToNearest) {
  constexpr std::size_t columns = 100;
  const std::vector<float> weights = ecq_test::gaussian(50, columns);
  std::vector<float> inputs = correlated_inputs(2000, columns, 11);
  for (std::size_t i = 0; i < inputs.size(); i += columns) inputs[i] = inputs[i + 7] = inputs[i + 99] = 0;
  const input_factor factor = factor_of(moments_of(inputs, columns));
  const coded nearest = quantized<ecq::int8>({.scale = 0.01F}, weights, columns);
  const coded made = quantized<ecq::int8>({.input = &factor, .scale = 0.01F}, weights, columns);
  EXPECT_NE(made.codes, nearest.codes);
  for (const index column : {0, 7, 99}) EXPECT_EQ(made.weights.col(column), nearest.weights.col(column)) << column;
}

TEST(ErrorFeedbackOfInt8, DependsOnNeitherThreadsNorInstructions) {
  constexpr std::size_t columns = 205;
  const std::vector<float> weights = ecq_test::gaussian(400, columns);
  const std::vector<float> inputs = correlated_inputs(1000, columns, 13), before = correlated_inputs(1000, columns, 14);
  const input_moments moments = moments_of(inputs, columns, before);
  const auto codes_by = [&](const cpu& backend) {
    const auto factor = input_factor::make(backend, moments);
    EXPECT_TRUE(factor);
    return quantized<ecq::int8>({.input = &*factor, .scale = 0.01F}, weights, columns, backend).codes;
  };
  const std::vector<std::uint8_t> alone = codes_by({});
  EXPECT_EQ(alone, codes_by({.threads = 3}));
  EXPECT_EQ(alone, codes_by({.threads = 2, .isa = ecq::instruction_set::scalar}));
}

TEST(ErrorFeedbackCorrection, ChangesNothingWhereInputsAreTheSame) {
  constexpr std::size_t columns = 90;
  const std::vector<float> weights = ecq_test::gaussian(40, columns);
  const std::vector<float> x = correlated_inputs(1000, columns, 17);
  const input_factor with = factor_of(moments_of(x, columns, x)), without = factor_of(moments_of(x, columns));
  EXPECT_FALSE(with.corrects());
  EXPECT_EQ(quantized<ecq::int8>({.input = &with, .scale = 0.01F, .correction = 1}, weights, columns).codes,
            quantized<ecq::int8>({.input = &without, .scale = 0.01F}, weights, columns).codes);
}

TEST(ErrorFeedbackCorrection, IsTheSolutionOfTheNormalEquations) {
  constexpr std::size_t columns = 150;
  const std::vector<float> y = correlated_inputs(3000, columns, 19);
  std::vector<float> x = y;
  const std::vector<float> noise = ecq_test::gaussian(3000, columns, 23, 0.5F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += noise[i];
  const input_moments moments = moments_of(x, columns, y);
  const input_factor factor = factor_of(moments);
  ASSERT_TRUE(factor.corrects());
  const std::vector<float> weights = ecq_test::gaussian(100, columns);
  const matrix exact = matrix_of(weights, columns);
  matrix h = matrix_of(moments.second, columns), c = matrix_of(moments.cross, columns);
  const double damping = 0.01 * h.diagonal().mean();
  h.diagonal().array() += damping;
  c.diagonal().array() += damping;
  const matrix expected = exact + 0.75 * (exact * c * h.inverse() - exact);
  constexpr std::size_t lanes = ecq::detail::lanes_of_rows, panel_columns = ecq::detail::panel_columns;
  std::vector<float> side_by_side(192 * lanes), targets(panel_columns * lanes);
  for (std::size_t i = 0; i < weights.size(); ++i) side_by_side[i % columns * lanes + i / columns] = weights[i];
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t panel = column / panel_columns, at = column % panel_columns;
    if (at == 0) factor.load_targets(panel, 0.75, side_by_side.data(), targets.data(), ecq::chosen_instruction_set({}));
    for (std::size_t row = 0; row < 100; ++row) {
      // Adds the feedback from the preceding columns as if these had exactly their expected values.
      double made = static_cast<double>(targets[at * lanes + row]);
      for (std::size_t before = 0; before < column; ++before) {
        const auto i = static_cast<index>(row), j = static_cast<index>(before);
        const float share = factor.feedback_of_panel(panel)[before * panel_columns + at];
        made -= static_cast<double>(share) * (expected(i, j) - exact(i, j));
      }
      ASSERT_NEAR(made, expected(static_cast<index>(row), static_cast<index>(column)), 1e-5) << row << ' ' << column;
    }
  }
}

TEST(ErrorFeedbackCorrection, LowersTheErrorOfOutputsForOtherInputs) {
  constexpr std::size_t columns = 128, tokens = 2048;
  const std::vector<float> weights = ecq_test::gaussian(96, columns);
  const std::vector<float> y = correlated_inputs(tokens, columns, 29);
  std::vector<float> x = y;
  const std::vector<float> noise = ecq_test::gaussian(tokens, columns, 31, 0.4F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += noise[i];
  const input_factor factor = factor_of(moments_of(x, columns, y));
  const matrix wanted = matrix_of(y, columns) * matrix_of(weights, columns).transpose();
  const auto error_with = [&](double share) {
    const coded made = quantized<ecq::int8>({.input = &factor, .scale = 0.01F, .correction = share}, weights, columns);
    return (wanted - matrix_of(x, columns) * made.weights.transpose()).squaredNorm();
  };
  EXPECT_LT(error_with(0.75), 0.8 * error_with(0));
}

TEST(ErrorFeedbackErrors, NameWhatDoesNotFit) {
  const std::vector<float> weights = ecq_test::gaussian(4, 6);
  const matrix_view<const float> view(weights.data(), 4, 6);
  std::vector<std::uint8_t> codes(24);
  std::vector<bf16> scale(1);
  const auto code_of = [&](const error_feedback& how) {
    const auto done = how.quantize<ecq::int8>({}, view, codes, scale);
    return done ? errc::ok : done.error().code();
  };
  EXPECT_EQ(code_of({}), errc::ok);
  const input_factor narrow = factor_of(made_moments(matrix::Identity(5, 5)));
  EXPECT_EQ(code_of({.input = &narrow}), errc::invalid_argument);
  EXPECT_EQ(code_of({.correction = 1.5}), errc::invalid_argument);
  EXPECT_EQ(code_of({.correction = std::nan("")}), errc::invalid_argument);
  scale.resize(4);
  EXPECT_EQ(code_of({}), errc::invalid_argument);
  scale.resize(1);
  codes.resize(23);
  EXPECT_EQ(code_of({}), errc::invalid_argument);
}

TEST(ErrorFeedbackErrors, NameWeightsThatAreNotFinite) {
  std::vector<float> weights = ecq_test::gaussian(200, 6);
  weights[150 * 6 + 4] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::uint8_t> codes(weights.size());
  std::vector<bf16> scale(1);
  const auto done = error_feedback{}.quantize<ecq::int8>(
      cpu{.threads = 2}, matrix_view<const float>(weights.data(), 200, 6), codes, scale);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::non_finite);
  EXPECT_NE(done.error().message().find("row 150, column 4"), std::string::npos) << done.error().message();
}

TEST(ErrorFeedbackErrors, FeedbackBeyondFp32IsAnError) {
  const std::vector<float> weights{3e38F, 3e38F};
  matrix second(2, 2);
  second << 1, 0.999, 0.999, 1;
  const input_factor factor = factor_of(made_moments(second));
  std::vector<std::uint8_t> codes(2);
  std::vector<bf16> scale(1);
  const auto done = error_feedback{.input = &factor, .scale = 1}.quantize<ecq::int8>(
      {}, matrix_view<const float>(weights.data(), 1, 2), codes, scale);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::non_finite);
}

TEST(ErrorFeedbackErrors, MatricesWithoutWeightsHaveNoScale) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 0}, {0, 0}}) {
    std::vector<std::uint8_t> codes;
    std::vector<bf16> scale(error_feedback{}.layout(rows, columns).count());
    EXPECT_TRUE(
        error_feedback{}.quantize<ecq::int8>({}, matrix_view<const float>(nullptr, rows, columns), codes, scale));
  }
}

TEST(InputFactor, RefusesWhatIsNoMoment) {
  const auto code_of = [](const input_moments& moments, const ecq::factor_options& how = {}) {
    const auto made = input_factor::make({}, moments, how);
    return made ? errc::ok : made.error().code();
  };
  const input_moments good = made_moments(matrix::Identity(3, 3));
  EXPECT_EQ(code_of(good), errc::ok);
  EXPECT_EQ(code_of(good, {.damping = 0}), errc::invalid_argument);
  EXPECT_EQ(code_of(good, {.damping = std::nan("")}), errc::invalid_argument);
  EXPECT_EQ(code_of(good, {.least_tokens_per_column = -1}), errc::invalid_argument);
  input_moments one_token = good;
  one_token.tokens = 1;
  EXPECT_EQ(code_of(one_token), errc::invalid_argument);
  EXPECT_EQ(code_of(one_token, {.least_tokens_per_column = 0}), errc::ok);
  // Any two of the columns could have such moments, but not all three: the eigenvalues are 1.9, 1.9 and -0.8.
  matrix indefinite = matrix::Constant(3, 3, -0.9);
  indefinite.diagonal().setOnes();
  EXPECT_EQ(code_of(made_moments(indefinite)), errc::invalid_argument);
  input_moments not_finite = good;
  not_finite.second[4] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(code_of(not_finite), errc::non_finite);
}

TEST(InputFactor, TakesSingularMoments) {
  EXPECT_TRUE(input_factor::make({}, made_moments(matrix::Zero(3, 3))));
  EXPECT_TRUE(input_factor::make({}, made_moments(matrix::Ones(200, 200))));
  EXPECT_TRUE(input_factor::make({}, made_moments(matrix::Ones(200, 200) * 1e-200)));
  EXPECT_TRUE(input_factor::make({}, made_moments(matrix::Ones(1, 1))));
}

}  // namespace
