#include "ecq/quantize/target_bits.hpp"
#include "ecq/quantize/rate_correction.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/row_sample.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::lambda_for_bits;
using ecq::matrix_view;
using ecq::rate_input;

double overhead(std::size_t stream, std::uint64_t codes) {
  return 3000.0 * static_cast<double>(stream + 1) + static_cast<double>(codes) / 256;
}

/// Four matrices of different shapes and distributions in two streams.
class model {
 public:
  model() {
    add(ecq_test::gaussian(256, 512, 1), 256, 0);
    add(ecq_test::student_t4(300, 256, 2, 0.05F), 300, 0);
    add(ecq_test::row_varying(192, 500, 3, 0.01F), 192, 1);
    add(ecq_test::gaussian(32, 40, 4), 32, 1);
  }

  std::span<const rate_input> inputs() const { return inputs_; }

  /// Returns the bits per weight of all codes, scales and overhead.
  template <class Format>
  double rate(double lambda) const {
    ecq::histogram streams[2];
    double bits = 0;
    double weights = 0;
    for (const rate_input& input : inputs_) {
      std::vector<std::uint8_t> codes(input.weights.size());
      std::vector<ecq::bf16> scales(input.weights.rows());
      EXPECT_TRUE(ecq::entquant_at{}(lambda).quantize<Format>(cpu{}, input.weights, codes, scales));
      streams[input.stream].add(codes);
      bits += 16.0 * static_cast<double>(scales.size());
      weights += static_cast<double>(codes.size());
    }
    for (std::size_t stream = 0; stream < 2; ++stream) {
      const std::uint64_t codes = streams[stream].total();
      bits += ecq::entropy_of(streams[stream]) * static_cast<double>(codes) + overhead(stream, codes);
    }
    return bits / weights;
  }

 private:
  void add(std::vector<float> weights, std::size_t rows, std::size_t stream) {
    const std::size_t columns = weights.size() / rows;
    weights_.push_back(std::move(weights));
    inputs_.push_back({matrix_view<const float>(weights_.back().data(), rows, columns), stream});
  }

  std::vector<std::vector<float>> weights_;
  std::vector<rate_input> inputs_;
};

template <class Format>
void expect_targets(const model& whole, std::initializer_list<double> targets) {
  for (const double target : targets) {
    const auto lambda = lambda_for_bits<Format>(cpu{.threads = 2}, whole.inputs(), target, overhead);
    ASSERT_TRUE(lambda) << lambda.error().to_string();
    EXPECT_NEAR(whole.rate<Format>(*lambda), target, 0.005) << Format::name << ", lambda " << *lambda;
  }
}

TEST(LambdaForBits, MeetsEveryTarget) {
  const model whole;
  expect_targets<ecq::fp8_e4m3>(whole, {1.3, 1.7, 2.1, 2.6, 3.0, 3.7, 4.0, 4.9, 5.5, 6.0, 6.5});
  expect_targets<ecq::int8>(whole, {1.3, 2.1, 3.0, 4.0, 5.5, 6.4});
}

TEST(LambdaForBits, ASampleNeedsAtMostOneCorrection) {
  const model whole;
  int corrected = 0;
  for (const std::uint64_t limit : {40000U, 10000U, 4000U}) {
    for (const double target : {1.3, 2.1, 3.0, 4.0, 5.0}) {
      SCOPED_TRACE(std::to_string(target) + " from " + std::to_string(limit));
      const auto lambda =
          lambda_for_bits<ecq::fp8_e4m3>(cpu{}, whole.inputs(), target, overhead, {.sample_limit = limit});
      ASSERT_TRUE(lambda);
      double measured = whole.rate<ecq::fp8_e4m3>(*lambda);
      EXPECT_NEAR(measured, target, limit == 40000U ? 0.02 : 0.15);
      constexpr std::uint64_t many = 1U << 24;
      ecq::rate_correction correction(target);
      if (!correction.again({measured, many, *lambda == 0})) continue;
      ++corrected;
      measured = whole.rate<ecq::fp8_e4m3>(correction.at(*lambda));
      EXPECT_NEAR(measured, target, ecq::rate_correction::tried_again_above);
      EXPECT_FALSE(correction.again({measured, many, false}));
    }
  }
  EXPECT_GE(corrected, 5);
}

TEST(LambdaForBits, ASampleReadsItsRowsAlone) {
  auto weights = ecq_test::gaussian(1000, 64);
  for (std::size_t row = 0; row < 1000; ++row) {
    if (ecq::detail::sampled_row(row / 10, 10, 1000) != row) {
      weights[row * 64] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const rate_input input{matrix_view<const float>(weights.data(), 1000, 64), 0};
  EXPECT_TRUE(
      lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0, ecq::no_overhead{}, {.sample_limit = 6400}));
  const auto all = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), errc::non_finite);
}

// Large rows take few bits here, so that factors of other rows would lead to another lambda.
TEST(LambdaForBits, ASampleHasTheFactorsOfItsRows) {
  auto weights = ecq_test::gaussian(3000, 64);
  std::vector<double> factors;
  for (std::size_t row = 0; row < 3000; ++row) {
    const bool large = row * 7919 % 3000 < 1000;
    factors.push_back(large ? 64 : 1);
    for (std::size_t column = 0; column < 64 && large; ++column) weights[row * 64 + column] *= 8;
  }
  const rate_input input{matrix_view<const float>(weights.data(), 3000, 64), 0, 1, factors};
  const auto all = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0);
  const auto some =
      lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0, ecq::no_overhead{}, {.sample_limit = 19200});
  ASSERT_TRUE(all && some);
  EXPECT_NEAR(*some / *all, 1, 0.1);
  const rate_input plain{input.weights};
  const auto alike = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&plain, 1), 3.0);
  ASSERT_TRUE(alike);
  EXPECT_LT(*all, *alike / 2);

  for (const std::size_t count : {1U, 2999U, 3001U}) {
    const std::vector<double> wrong(count, 1.0);
    const rate_input unfit{input.weights, 0, 1, wrong};
    const auto none = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&unfit, 1), 3.0);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), errc::invalid_argument);
  }
}

TEST(LambdaForBits, ScalesCountUnlessAskedOtherwise) {
  const auto weights = ecq_test::gaussian(512, 64);
  const rate_input input{matrix_view<const float>(weights.data(), 512, 64), 0};
  const auto with = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.25);
  const auto without =
      lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0, ecq::no_overhead{}, {.count_scales = false});
  ASSERT_TRUE(with && without);
  EXPECT_NEAR(*with / *without, 1.0, 0.005);
}

TEST(LambdaForBits, MoreThanAbsMaxNeedsIsAbsMax) {
  const model whole;
  const auto lambda = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, whole.inputs(), 7.9, overhead);
  ASSERT_TRUE(lambda);
  EXPECT_EQ(*lambda, 0.0);
}

// If too many rows are huge to count as outliers, lambda has to be as small as the other rows are.
TEST(LambdaForBits, MeetsTargetsWhereRowsDifferBeyondMeasure) {
  constexpr std::size_t rows = 64, columns = 512;
  for (const float huge : {1e6F, 1e16F, 1e30F}) {
    auto weights = ecq_test::gaussian(rows, columns, 5, 0.02F);
    for (std::size_t i = 0; i < rows / 4 * columns; ++i) weights[i] *= huge;
    const rate_input input{matrix_view<const float>(weights.data(), rows, columns), 0};
    for (const double target : {1.5, 3.0, 6.0}) {
      const auto lambda = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), target);
      ASSERT_TRUE(lambda) << lambda.error().to_string();
      std::vector<std::uint8_t> codes(weights.size());
      std::vector<ecq::bf16> scales(rows);
      ASSERT_TRUE(ecq::entquant_at{}(*lambda).quantize<ecq::fp8_e4m3>(cpu{}, input.weights, codes, scales));
      const double rate = ecq::entropy_of(*ecq::count_codes(cpu{}, codes)) + 16.0 * rows / (rows * columns);
      EXPECT_NEAR(rate, target, 0.005) << huge;
    }
  }
}

TEST(LambdaForBits, LessThanOverheadNeedsIsAnErrorThatNamesTheLeast) {
  const model whole;
  const auto lambda = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, whole.inputs(), 0.05, overhead);
  ASSERT_FALSE(lambda);
  EXPECT_EQ(lambda.error().code(), errc::unreachable_target);
  EXPECT_NE(
      lambda.error().message().find("0.050000 bits per weight were requested, but scales and stream overhead take 0."),
      std::string::npos)
      << lambda.error().message();
}

TEST(LambdaForBits, ResultsDoNotDependOnThreads) {
  const model whole;
  for (const double target : {1.5, 3.3}) {
    const auto one = lambda_for_bits<ecq::fp8_e4m3>(cpu{.threads = 1}, whole.inputs(), target, overhead);
    const auto three = lambda_for_bits<ecq::fp8_e4m3>(cpu{.threads = 3}, whole.inputs(), target, overhead);
    ASSERT_TRUE(one && three);
    EXPECT_EQ(*one, *three);
  }
}

TEST(LambdaForBits, SmallAndEmptyModels) {
  EXPECT_EQ(*lambda_for_bits<ecq::fp8_e4m3>(cpu{}, {}, 3.0), 0.0);
  const rate_input nothing{};
  EXPECT_EQ(*lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&nothing, 1), 3.0), 0.0);
  const std::vector<float> one = {0.25F};
  const rate_input single{matrix_view<const float>(one.data(), 1, 1), 0};
  EXPECT_EQ(*lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&single, 1), 20.0), 0.0);
  EXPECT_EQ(lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&single, 1), 3.0).error().code(), errc::unreachable_target);
  const auto few = ecq_test::gaussian(3, 5);
  const rate_input tiny{matrix_view<const float>(few.data(), 3, 5), 0};
  const auto lambda = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&tiny, 1), 4.6);
  ASSERT_TRUE(lambda) << lambda.error().to_string();
  EXPECT_GT(*lambda, 0.0);
}

TEST(LambdaForBits, RefusesTargetsAndStreamsThatMakeNoSense) {
  const std::vector<float> weights(4, 1.0F);
  const rate_input input{matrix_view<const float>(weights.data(), 2, 2), 1};
  for (const double target : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e9, 3.0}) {
    const auto refused = lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), target);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
}

}  // namespace
