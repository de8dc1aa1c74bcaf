#include "ecq/calibrated/input_moments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::input_moments;
using ecq::matrix_view;
using ecq::moment_sums;

matrix_view<const float> rows_of(const std::vector<float>& values, std::size_t columns) {
  return {values.data(), values.size() / columns, columns};
}

input_moments moments_of(const cpu& backend, const std::vector<float>& x, const std::vector<float>& y,
                         std::size_t columns) {
  auto sums = moment_sums::create(columns, !y.empty());
  EXPECT_TRUE(sums);
  EXPECT_TRUE(sums->add(backend, rows_of(x, columns), y.empty() ? matrix_view<const float>() : rows_of(y, columns)));
  auto made = std::move(*sums).finish(backend);
  EXPECT_TRUE(made);
  return std::move(*made);
}

class InputMomentsOfWidth : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Widths, InputMomentsOfWidth, testing::Values(1, 2, 63, 64, 65, 129, 200));

TEST_P(InputMomentsOfWidth, AreTheMeansOfProducts) {
  const std::size_t columns = GetParam(), tokens = 300;
  const std::vector<float> x = ecq_test::gaussian(tokens, columns, 1, 1.0F);
  const std::vector<float> y = ecq_test::gaussian(tokens, columns, 2, 1.0F);
  const input_moments made = moments_of({}, x, y, columns);
  EXPECT_EQ(made.width, columns);
  EXPECT_EQ(made.tokens, tokens);
  EXPECT_TRUE(made.check({}));
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double second = 0, cross = 0;
      for (std::size_t token = 0; token < tokens; ++token) {
        const auto right = static_cast<double>(x[token * columns + j]);
        second += static_cast<double>(x[token * columns + i]) * right;
        cross += static_cast<double>(y[token * columns + i]) * right;
      }
      ASSERT_NEAR(made.second[i * columns + j], second / tokens, 1e-5) << i << ' ' << j;
      ASSERT_NEAR(made.cross[i * columns + j], cross / tokens, 1e-5) << i << ' ' << j;
      ASSERT_EQ(made.second[i * columns + j], made.second[j * columns + i]);
    }
  }
}

TEST_P(InputMomentsOfWidth, DependOnNeitherThreadsNorCallsNorInstructions) {
  const std::size_t columns = GetParam(), tokens = 530;
  const std::vector<float> x = ecq_test::gaussian(tokens, columns, 3, 1.0F);
  const std::vector<float> y = ecq_test::gaussian(tokens, columns, 4, 1.0F);
  const input_moments whole = moments_of({}, x, y, columns);
  const input_moments scalar = moments_of({.threads = 3, .isa = ecq::instruction_set::scalar}, x, y, columns);
  EXPECT_EQ(whole.second, scalar.second);
  EXPECT_EQ(whole.cross, scalar.cross);
  auto sums = moment_sums::create(columns, true);
  ASSERT_TRUE(sums);
  for (std::size_t token = 0, some = 1; token < tokens; token += some, some = some * 3 % 101) {
    some = std::min(some, tokens - token);
    ASSERT_TRUE(sums->add({.threads = 2}, rows_of(x, columns).row_range(token, some),
                          rows_of(y, columns).row_range(token, some)));
  }
  const auto piecewise = std::move(*sums).finish({});
  ASSERT_TRUE(piecewise);
  EXPECT_EQ(whole.second, piecewise->second);
  EXPECT_EQ(whole.cross, piecewise->cross);
}

TEST(InputMoments, OfTheSameInputsTwiceAreEqual) {
  const std::vector<float> x = ecq_test::gaussian(600, 150, 5, 1.0F);
  const input_moments made = moments_of({.threads = 2}, x, x, 150);
  EXPECT_EQ(made.second, made.cross);
}

TEST(InputMoments, RefuseWhatTheyCannotSum) {
  EXPECT_EQ(moment_sums::create(0).error().code(), errc::invalid_argument);
  EXPECT_EQ(moment_sums::create(moment_sums::most_columns + 1).error().code(), errc::limit_exceeded);
  auto sums = moment_sums::create(4);
  ASSERT_TRUE(sums);
  std::vector<float> x(8, 1.0F);
  EXPECT_EQ(sums->add({}, rows_of(x, 8)).error().code(), errc::invalid_argument);
  EXPECT_EQ(sums->add({}, rows_of(x, 4), rows_of(x, 4)).error().code(), errc::invalid_argument);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    x[6] = bad;
    const auto refused = sums->add({}, rows_of(x, 4));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::non_finite);
    EXPECT_NE(refused.error().message().find("row 1, column 2"), std::string::npos) << refused.error().message();
  }
  EXPECT_EQ(sums->tokens(), 0U);
  EXPECT_EQ(std::move(*sums).finish({}).error().code(), errc::invalid_argument);

  auto pairs = moment_sums::create(4, true);
  ASSERT_TRUE(pairs);
  x[6] = 1;
  EXPECT_EQ(pairs->add({}, rows_of(x, 4)).error().code(), errc::invalid_argument);
  EXPECT_EQ(pairs->add({}, rows_of(x, 4), rows_of(x, 4).row_range(0, 1)).error().code(), errc::invalid_argument);
}

TEST(InputMoments, BeyondFp32AreAnError) {
  auto sums = moment_sums::create(2);
  ASSERT_TRUE(sums);
  const std::vector<float> x{1e30F, 1.0F};
  ASSERT_TRUE(sums->add({}, rows_of(x, 2)));
  EXPECT_EQ(std::move(*sums).finish({}).error().code(), errc::non_finite);
}

TEST(InputMoments, CheckNamesWhatIsWrong) {
  const input_moments good{2, 10, {2, 1, 1, 3}, {}};
  EXPECT_TRUE(good.check({}));
  const auto code_of = [](const input_moments& moments) { return moments.check({}).error().code(); };
  input_moments bad = good;
  bad.tokens = 0;
  EXPECT_EQ(code_of(bad), errc::invalid_argument);
  bad = good;
  bad.second.pop_back();
  EXPECT_EQ(code_of(bad), errc::invalid_argument);
  bad = good;
  bad.cross = {1};
  EXPECT_EQ(code_of(bad), errc::invalid_argument);
  bad = good;
  bad.second[1] = 0.5;
  EXPECT_EQ(code_of(bad), errc::invalid_argument) << "not symmetric";
  bad = good;
  bad.second[1] = bad.second[2] = 2.6;
  EXPECT_EQ(code_of(bad), errc::invalid_argument) << "indefinite";
  bad = good;
  bad.second[0] = -2;
  EXPECT_EQ(code_of(bad), errc::invalid_argument) << "negative";
  bad = good;
  bad.second[3] = std::nan("");
  EXPECT_EQ(code_of(bad), errc::non_finite);
  bad = good;
  bad.second[2] = std::nan("");
  EXPECT_EQ(code_of(bad), errc::non_finite) << "below the diagonal";
  bad = good;
  bad.cross = {0, 0, std::numeric_limits<double>::infinity(), 0};
  EXPECT_EQ(code_of(bad), errc::non_finite);
}

}  // namespace
