#include "ecq/entropy/frequencies.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace {

ecq::histogram random_histogram(std::mt19937_64& random, std::size_t symbols, double skew) {
  ecq::histogram codes;
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (std::size_t i = 0; i < symbols; ++i) {
    codes.counts[random() % 256] = static_cast<std::uint64_t>(std::exp(skew * uniform(random)));
  }
  codes.counts[7] += 1;
  return codes;
}

double cost(const ecq::histogram& codes, const ecq::frequency_table& table) {
  double bits = 0;
  for (std::size_t i = 0; i < table.count; ++i) {
    bits += static_cast<double>(codes.counts[table.symbols[i]]) *
            (table.scale_bits - std::log2(static_cast<double>(table.frequencies[i])));
  }
  return bits;
}

TEST(Log2Fixed, IsCloseFromBelow) {
  for (std::uint32_t value = 1; value <= 65536; value += 1 + value / 97) {
    const double exact = std::log2(static_cast<double>(value)) * 4294967296.0;
    EXPECT_NEAR(static_cast<double>(ecq::log2_fixed(value)), exact, 5.0) << value;
  }
  EXPECT_EQ(ecq::log2_fixed(65536), std::uint64_t{16} << 32);
}

TEST(NormalizeFrequencies, SumsUpAndKeepsEverySymbol) {
  std::mt19937_64 random(1);
  for (unsigned scale_bits = 8; scale_bits <= 16; ++scale_bits) {
    for (const std::size_t symbols : {0U, 1U, 5U, 60U, 1000U, 5000U}) {
      for (const double skew : {0.0, 3.0, 12.0, 28.0, 36.0}) {
        const ecq::histogram codes = random_histogram(random, symbols, skew);
        const ecq::frequency_table table = ecq::normalize_frequencies(codes, scale_bits);
        ASSERT_EQ(table.count, codes.distinct());
        EXPECT_EQ(std::accumulate(table.frequencies.begin(), table.frequencies.end(), 0U), 1U << scale_bits);
        for (std::size_t i = 0; i < table.count; ++i) {
          EXPECT_GE(table.frequencies[i], 1U);
          EXPECT_NE(codes.counts[table.symbols[i]], 0U);
        }
      }
    }
  }
}

// Moving a unit from one symbol to another never makes the code shorter. As the cost is convex, no shorter code exists.
TEST(NormalizeFrequencies, LeavesNothingToGain) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 30; ++round) {
    const ecq::histogram codes = random_histogram(random, 40, 14.0);
    ecq::frequency_table table = ecq::normalize_frequencies(codes, 8 + static_cast<unsigned>(round) % 9);
    const double best = cost(codes, table);
    for (std::size_t from = 0; from < table.count; ++from) {
      for (std::size_t to = 0; to < table.count; ++to) {
        if (from == to || table.frequencies[from] == 1) continue;
        --table.frequencies[from];
        ++table.frequencies[to];
        EXPECT_GE(cost(codes, table), best * (1 - 1e-9));
        ++table.frequencies[from];
        --table.frequencies[to];
      }
    }
  }
}

TEST(NormalizeFrequencies, FindsTheBestOfAllOfThree) {
  ecq::histogram codes;
  codes.counts[0] = 1000;
  codes.counts[1] = 90;
  codes.counts[2] = 1;
  const ecq::frequency_table table = ecq::normalize_frequencies(codes, 8);
  double best = 1e300;
  for (std::uint32_t a = 1; a < 255; ++a) {
    for (std::uint32_t b = 1; a + b < 256; ++b) {
      ecq::frequency_table other = table;
      other.frequencies[0] = a;
      other.frequencies[1] = b;
      other.frequencies[2] = 256 - a - b;
      best = (std::min)(best, cost(codes, other));
    }
  }
  EXPECT_NEAR(cost(codes, table), best, 1e-9 * best);
}

TEST(CodedBits, IsTheCrossEntropy) {
  std::mt19937_64 random(3);
  const ecq::histogram codes = random_histogram(random, 80, 12.0);
  const ecq::frequency_table table = ecq::normalize_frequencies(codes, 12);
  EXPECT_NEAR(static_cast<double>(ecq::coded_bits(codes, table)), cost(codes, table), 2 + 1e-4 * cost(codes, table));
}

}  // namespace
