#include "ecq/quantize/rate_correction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace {

using ecq::errc;
using ecq::rate_correction;

constexpr std::uint64_t many = 1U << 24;

TEST(RateCorrection, LeavesAloneWhatMeetsTheRate) {
  rate_correction correction(3.0);
  EXPECT_EQ(correction.at(8.0), 8.0);
  EXPECT_EQ(correction.at(-1.0), -1.0) << "whether a lambda is one is not asked here";
  EXPECT_FALSE(correction.again({3.01, many, false}));
  EXPECT_EQ(correction.at(8.0), 8.0);
  EXPECT_TRUE(correction.check());
}

TEST(RateCorrection, BeginsWithFourTimesLambdaForABit) {
  rate_correction correction(2.0);
  EXPECT_TRUE(correction.again({3.0, many, false}));
  EXPECT_EQ(correction.at(8.0), 32.0);
}

// Doubling lambda may be worth any number of bits.
TEST(RateCorrection, MeetsRatesOfAnySlope) {
  for (const double slope : {0.1, 0.3, 0.5, 0.8, 1.5}) {
    for (const double start : {-0.4, 0.2, 0.41}) {
      rate_correction correction(3.0);
      const auto rate_at = [&](double lambda) { return 3.0 + start - slope * std::log2(lambda / 8.0); };
      while (correction.again({rate_at(correction.at(8.0)), many, false})) {
      }
      EXPECT_NEAR(rate_at(correction.at(8.0)), 3.0, rate_correction::tolerance) << slope << ' ' << start;
      EXPECT_TRUE(correction.check());
    }
  }
}

// Rates of matrices of few columns, where secants go back and forth between two steps.
TEST(RateCorrection, MeetsRatesThatGoInSteps) {
  for (const double step : {0.05, 0.1, 0.3}) {
    for (double target = 2.0; target < 6.0; target += 0.0625) {
      for (const bool from_absmax : {false, true}) {
        rate_correction correction(target);
        const auto pass = [&](double lambda) -> ecq::measured_rate {
          if (lambda == 0) return {6.6, many, true};
          const double smooth = 3.0 - 0.5 * std::log2(lambda / 14.5);
          // Steps with flanks, on which every rate is met.
          const double part = smooth / step - std::floor(smooth / step);
          return {step * (std::floor(smooth / step) + std::clamp((part - 0.45) * 10, 0.0, 1.0)), many, false};
        };
        int passes = 1;
        while (correction.again(pass(correction.at(from_absmax ? 0 : 20)))) ++passes;
        EXPECT_TRUE(correction.check()) << step << ' ' << target;
        EXPECT_LE(passes, from_absmax ? 20 : 14) << step << ' ' << target;
      }
    }
  }
}

// Packed scales of 16 columns are a bit wider or narrower by chance: every target lies near two rates of each lambda.
TEST(RateCorrection, MeetsRatesOfTwoBranches) {
  for (double target = 3.0; target < 5.0; target += 0.01) {
    rate_correction correction(target);
    std::uint32_t chance = 1;
    const auto pass = [&](double lambda) -> ecq::measured_rate {
      if (lambda == 0) return {6.6, many, true};
      chance = chance * 1664525U + 1013904223U;
      return {3.0 - 0.5 * std::log2(lambda / 14.5) + (chance >> 31) * 0.0625, many, false};
    };
    int passes = 1;
    while (correction.again(pass(correction.at(11)))) ++passes;
    EXPECT_TRUE(correction.check()) << target;
  }
}

TEST(RateCorrection, TakesLessThanWasAskedForOfAbsmax) {
  rate_correction correction(6.5);
  EXPECT_FALSE(correction.again({6.0, many, true}));
  EXPECT_EQ(correction.at(0.0), 0.0);
  EXPECT_TRUE(correction.check());
}

TEST(RateCorrection, LeavesAbsmaxWhereThatTakesMore) {
  rate_correction correction(6.0);
  EXPECT_TRUE(correction.again({6.5, many, true}));
  EXPECT_GT(correction.at(0.0), 0.0);
}

// No lambda meets the target, although the finest codes take fewer bits.
TEST(RateCorrection, TriesAbsmaxAtLast) {
  for (const double stuck : {2.8, 3.4}) {
    rate_correction correction(3.0);
    int passes = 1;
    for (bool absmax = false; correction.again({absmax ? 2.75 : stuck, many, absmax}); ++passes) {
      absmax = correction.at(8.0) == 0;
    }
    EXPECT_EQ(passes, rate_correction::most_attempts + 1);
    EXPECT_EQ(correction.at(8.0), 0);
    EXPECT_TRUE(correction.check());
  }
}

TEST(RateCorrection, SaysWhatWasMissed) {
  rate_correction correction(3.0);
  int passes = 1;
  for (bool absmax = false; correction.again({absmax ? 3.6 : 3.4, many, absmax}); ++passes) {
    absmax = correction.at(8.0) == 0;
  }
  EXPECT_EQ(passes, rate_correction::most_attempts + 1);
  const auto missed = correction.check();
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.error().code(), errc::unreachable_target);
  EXPECT_NE(missed.error().message().find("3.4"), std::string::npos) << missed.error().message();
}

// Pairs, which are worth their bits below lambda = 7, take 0.1 bit more than single codes.
TEST(RateCorrection, MeetsRatesBetweenThoseOfPairsAndOfSingleCodes) {
  for (const double target : {3.0, 3.08, 3.13, 3.15, 3.17, 3.3}) {
    rate_correction correction(target);
    int paired = 0;
    int single = 0;
    const auto pass = [&](double lambda) -> ecq::measured_rate {
      const bool pairs = lambda < 7 && !correction.without_pairs();
      ++(correction.without_pairs() ? single : paired);
      return {3.0 - 0.5 * std::log2(lambda / 8.0) + (pairs ? 0.1 : 0), many, false, true};
    };
    while (correction.again(pass(correction.at(8.0)))) {
    }
    EXPECT_TRUE(correction.check()) << target;
    EXPECT_EQ(single != 0, target > 3.1 && target < 3.2) << target;
    EXPECT_LE(paired, rate_correction::most_attempts);
    EXPECT_LE(single, 2);
  }
}

// Rates jump at the target: only the first pass comes near enough.
TEST(RateCorrection, GoesBackToThePassThatMetTheRate) {
  rate_correction correction(3.0);
  EXPECT_TRUE(correction.again({2.981, many, false}));
  for (int pass = 1; pass < rate_correction::most_attempts; ++pass) {
    EXPECT_NE(correction.at(8.0), 8.0);
    EXPECT_TRUE(correction.again({3.03, many, false}));
  }
  EXPECT_EQ(correction.at(8.0), 8.0);
  EXPECT_FALSE(correction.again({2.981, many, false}));
  EXPECT_TRUE(correction.check());
}

// Sizes of streams are multiples of 64 bytes.
TEST(RateCorrection, DoesNotAskForMoreThanFewWeightsCanMeet) {
  rate_correction correction(3.0);
  EXPECT_FALSE(correction.again({3.05, 10000, false}));
  EXPECT_TRUE(correction.check());
  EXPECT_TRUE(correction.again({3.06, 10000, false}));
}

}  // namespace
