#include "ecq/analysis/exponent_law.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>

namespace {

using ecq::exponent_counts;
using ecq::two_sided_geometric;

/// Returns the counts of 2^50 weights whose exponents have these probabilities.
template <class Probability>
exponent_counts counts_of(Probability&& probability) {
  exponent_counts counts;
  for (int exponent = -126; exponent <= 127; ++exponent) {
    counts.fields.counts[static_cast<std::size_t>(exponent + exponent_counts::fp32_bias)] =
        static_cast<std::uint64_t>(std::llround(probability(exponent) * 0x1p50));
  }
  return counts;
}

exponent_counts gaussian(double deviation) {
  const auto below = [&](int exponent) { return std::erf(std::exp2(exponent) / deviation / std::numbers::sqrt2); };
  return counts_of([&](int exponent) { return below(exponent + 1) - below(exponent); });
}

exponent_counts cauchy(double scale) {
  // The difference of two arctangents, without cancellation in the tail.
  return counts_of([&](int exponent) {
    const double low = std::exp2(exponent) / scale;
    return 2 / std::numbers::pi * std::atan(low / (1 + 2 * low * low));
  });
}

TEST(TwoSidedGeometric, EntropyIsThatOfItsProbabilities) {
  for (const double alpha : {0.25, 0.5, 1.0, 1.3, 2.0, 5.0, 20.0}) {
    const two_sided_geometric law{alpha, 3};
    double total = 0, entropy = 0, distance = 0;
    for (int exponent = -400; exponent <= 400; ++exponent) {
      const double probability = law.probability(exponent);
      total += probability;
      distance += probability * std::abs(exponent - 3);
      if (probability > 0) entropy -= probability * std::log2(probability);
    }
    EXPECT_NEAR(total, 1.0, 1e-12);
    EXPECT_NEAR(law.entropy(), entropy, 1e-11) << alpha;
    EXPECT_NEAR(law.mean_distance(), distance, 1e-11) << alpha;
  }
  EXPECT_DOUBLE_EQ(two_sided_geometric{1}.entropy(), std::log2(3.0) + 4.0 / 3);
  EXPECT_DOUBLE_EQ(two_sided_geometric{2}.entropy(), std::log2(5.0 / 3) + 16.0 / 15);
}

TEST(TwoSidedGeometric, StatedBoundsHoldNearTheGaussianAlone) {
  for (double alpha = 1.48; alpha <= 2.11; alpha += 0.01) {
    const double entropy = two_sided_geometric{alpha}.entropy();
    EXPECT_LE(ecq::stated_entropy_bounds(alpha).lower, entropy) << alpha;
    EXPECT_GE(ecq::stated_entropy_bounds(alpha).upper, entropy) << alpha;
  }
  for (const double alpha : {0.5, 1.0, 1.47}) {
    EXPECT_LT(ecq::stated_entropy_bounds(alpha).upper, two_sided_geometric{alpha}.entropy()) << alpha;
  }
  for (const double alpha : {2.12, 3.0}) {
    EXPECT_GT(ecq::stated_entropy_bounds(alpha).lower, two_sided_geometric{alpha}.entropy()) << alpha;
  }
}

TEST(TwoSidedGeometric, FiguresOfThePaper) {
  EXPECT_DOUBLE_EQ(ecq::stated_entropy_bounds(2).lower, 1.6);
  EXPECT_DOUBLE_EQ(ecq::stated_entropy_bounds(2).upper, 8.0 / 3);
  EXPECT_DOUBLE_EQ(ecq::shortest_float_bits(), 14.0 / 3);
  EXPECT_DOUBLE_EQ(ecq::shortest_float_bits(2, 3), 20.0 / 3);
}

TEST(FitTwoSidedGeometric, FindsTheLawAgain) {
  for (const double alpha : {0.5, 0.8, 1.2, 2.0, 4.0}) {
    const two_sided_geometric law{alpha, -7};
    const auto fitted =
        ecq::fit_two_sided_geometric(counts_of([&](int exponent) { return law.probability(exponent); }));
    EXPECT_NEAR(fitted.alpha, alpha, 1e-9) << alpha;
    EXPECT_EQ(fitted.centre, -7);
  }
}

TEST(FitTwoSidedGeometric, FindsTheLawInSamples) {
  std::mt19937 random(11);
  for (const double alpha : {0.7, 1.5, 2.0}) {
    // The difference of two geometric variables of ratio q is two-sided geometric.
    const auto geometric = [&] {
      return static_cast<int>(std::floor(std::log2((static_cast<double>(random()) + 1) * 0x1p-32) / -alpha));
    };
    exponent_counts counts;
    for (int sample = 0; sample < 100000; ++sample) {
      const int exponent = geometric() - geometric() - 5;
      ++counts.fields.counts[static_cast<std::size_t>(exponent + exponent_counts::fp32_bias)];
    }
    const auto fitted = ecq::fit_two_sided_geometric(counts);
    EXPECT_NEAR(fitted.alpha, alpha, 0.02);
    EXPECT_EQ(fitted.centre, -5);
  }
}

TEST(FitTwoSidedGeometric, EntropyIsAnUpperBoundOfTheExponents) {
  for (const exponent_counts& counts : {gaussian(0.02), gaussian(1), cauchy(1), cauchy(0.013)}) {
    const double entropy = ecq::exponent_entropy(counts, ecq::dtype::fp32);
    EXPECT_LT(entropy, ecq::fit_two_sided_geometric(counts).entropy());
  }
  const two_sided_geometric law{1.2, 0};
  const exponent_counts exact = counts_of([&](int exponent) { return law.probability(exponent); });
  EXPECT_NEAR(ecq::exponent_entropy(exact, ecq::dtype::fp32), ecq::fit_two_sided_geometric(exact).entropy(), 1e-9);
}

TEST(FitTwoSidedGeometric, OneExponentAndNone) {
  exponent_counts same;
  same.fields.counts[100] = 5;
  same.fields.counts[0] = 7;
  same.fields.counts[255] = 9;
  EXPECT_TRUE(std::isinf(ecq::fit_two_sided_geometric(same).alpha));
  EXPECT_EQ(ecq::fit_two_sided_geometric(same).centre, -27);
  EXPECT_EQ(ecq::fit_two_sided_geometric(same).entropy(), 0.0);
  EXPECT_EQ(ecq::fit_two_sided_geometric(same).probability(-27), 1.0);
  EXPECT_EQ(ecq::fit_two_sided_geometric(same).probability(-26), 0.0);
  EXPECT_EQ(ecq::fit_stable_alpha(same), 2.0);
  same.fields.counts[100] = 0;
  EXPECT_TRUE(std::isnan(ecq::fit_two_sided_geometric(same).alpha));
  EXPECT_TRUE(std::isnan(ecq::fit_stable_alpha(same)));
}

TEST(FitStableAlpha, GaussianAndCauchyAtAnyScale) {
  for (double scale = 0.01; scale < 0.02; scale *= 1.1) {
    EXPECT_NEAR(ecq::fit_stable_alpha(gaussian(scale)), 2.0, 0.005) << scale;
    EXPECT_NEAR(ecq::fit_stable_alpha(cauchy(scale)), 1.0, 0.001) << scale;
  }
}

/// Chambers, Mallows and Stuck, A method for simulating stable random variables (1976), symmetric case.
TEST(FitStableAlpha, FindsTheLawInSamples) {
  std::mt19937 random(5);
  const auto uniform = [&] { return (static_cast<double>(random()) + 0.5) * 0x1p-32; };
  for (const double alpha : {0.8, 1.2, 1.5, 1.8}) {
    exponent_counts counts;
    for (int sample = 0; sample < 100000; ++sample) {
      const double angle = std::numbers::pi * (uniform() - 0.5);
      const double exponential = -std::log(uniform());
      const double value = std::sin(alpha * angle) / std::pow(std::cos(angle), 1 / alpha) *
                           std::pow(std::cos((1 - alpha) * angle) / exponential, (1 - alpha) / alpha);
      const int exponent = static_cast<int>(std::floor(std::log2(std::fabs(value))));
      ++counts.fields.counts[static_cast<std::size_t>(exponent + exponent_counts::fp32_bias)];
    }
    EXPECT_NEAR(ecq::fit_stable_alpha(counts), alpha, 0.03);
  }
}

/// Compares the entropy of exponents according to the theory with that of Gaussian weights.
TEST(ExponentLaw, GaussianExponentsCostMoreThanTheLawSays) {
  const double entropy = ecq::exponent_entropy(gaussian(1), ecq::dtype::fp32);
  EXPECT_GT(entropy, 2.5);
  EXPECT_LT(entropy, 2.6);
  EXPECT_LT(two_sided_geometric{2}.entropy(), 1.81);
  EXPECT_NEAR(ecq::fit_two_sided_geometric(gaussian(1)).alpha, 1.2, 0.1);
}

}  // namespace
