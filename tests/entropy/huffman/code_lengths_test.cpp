#include "ecq/entropy/huffman/code_lengths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/codes.hpp"

namespace {

ecq::histogram histogram_of(const std::vector<std::uint64_t>& counts) {
  ecq::histogram codes;
  std::copy(counts.begin(), counts.end(), codes.counts.begin());
  return codes;
}

ecq::histogram fibonacci(unsigned symbols) {
  std::vector<std::uint64_t> counts = {1, 1};
  while (counts.size() < symbols) counts.push_back(counts[counts.size() - 1] + counts[counts.size() - 2]);
  return histogram_of(counts);
}

unsigned longest(const ecq::code_lengths& lengths) { return *std::max_element(lengths.begin(), lengths.end()); }

bool is_complete(const ecq::histogram& codes, const ecq::code_lengths& lengths) {
  double sum = 0;
  for (std::size_t symbol = 0; symbol < 256; ++symbol) {
    if ((lengths[symbol] != 0) != (codes.counts[symbol] != 0)) return false;
    if (lengths[symbol] != 0) sum += 1.0 / static_cast<double>(std::uint64_t{1} << lengths[symbol]);
  }
  return sum == 1;
}

// Returns the least cost of all codes of at most `limit` bits. It tries every sequence of lengths that ascends as
// counts fall.
std::uint64_t least_cost(const std::vector<std::uint64_t>& falling, std::size_t at, unsigned shortest, unsigned limit,
                         std::uint64_t space) {
  if (at == falling.size()) return 0;
  std::uint64_t best = ~std::uint64_t{0};
  for (unsigned length = shortest; length <= limit; ++length) {
    const std::uint64_t taken = std::uint64_t{1} << (limit - length);
    if (taken * (falling.size() - at) > space && taken > space) continue;
    const std::uint64_t rest = least_cost(falling, at + 1, length, limit, space - taken);
    if (rest != ~std::uint64_t{0}) best = (std::min)(best, falling[at] * length + rest);
  }
  return best;
}

TEST(CodeLengths, AreTheBestOfAllWithinTheLimit) {
  ecq_test::code_source source(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> counts(2 + source.next() % 7);
    for (std::uint64_t& count : counts) count = 1 + source.next() % (std::uint64_t{1} << (1 + source.next() % 12));
    std::vector<std::uint64_t> falling = counts;
    std::sort(falling.rbegin(), falling.rend());
    const ecq::histogram codes = histogram_of(counts);
    for (unsigned limit = 3; limit <= 8; ++limit) {
      const ecq::code_lengths lengths = ecq::limited_code_lengths(codes, limit);
      EXPECT_LE(longest(lengths), limit);
      EXPECT_TRUE(is_complete(codes, lengths));
      ASSERT_EQ(ecq::coded_bits(codes, lengths), least_cost(falling, 0, 1, limit, std::uint64_t{1} << limit));
    }
    ASSERT_EQ(ecq::coded_bits(codes, ecq::huffman_code_lengths(codes)),
              ecq::coded_bits(codes, ecq::limited_code_lengths(codes, 8)));
  }
}

TEST(CodeLengths, OfAWideLimitAreThoseOfHuffman) {
  for (const unsigned values : {2U, 3U, 16U, 200U, 256U}) {
    ecq::histogram codes;
    codes.add(ecq_test::code_source(values).below(5000, values));
    const auto lengths = ecq::limited_code_lengths(codes, 32);
    EXPECT_TRUE(is_complete(codes, lengths));
    EXPECT_EQ(ecq::coded_bits(codes, lengths), ecq::coded_bits(codes, ecq::huffman_code_lengths(codes)));
  }
}

TEST(CodeLengths, OfFibonacciCountsKeepToTheLimit) {
  for (unsigned symbols = 2; symbols <= 80; ++symbols) {
    const ecq::histogram codes = fibonacci(symbols);
    EXPECT_EQ(longest(ecq::huffman_code_lengths(codes)), symbols - 1);
    for (const unsigned limit : {8U, 12U, 16U, 32U}) {
      const ecq::code_lengths best = ecq::limited_code_lengths(codes, limit);
      const ecq::code_lengths adjusted = ecq::adjusted_code_lengths(codes, limit);
      EXPECT_EQ(longest(best), (std::min)(symbols - 1, limit));
      EXPECT_LE(longest(adjusted), limit);
      EXPECT_TRUE(is_complete(codes, best));
      EXPECT_TRUE(is_complete(codes, adjusted));
      EXPECT_LE(ecq::coded_bits(codes, best), ecq::coded_bits(codes, adjusted));
    }
  }
}

TEST(CodeLengths, OfEqualCountsAreEqual) {
  std::vector<std::uint64_t> counts(256, 5);
  for (const std::uint8_t length : ecq::limited_code_lengths(histogram_of(counts), 8)) EXPECT_EQ(length, 8);
  for (const std::uint8_t length : ecq::adjusted_code_lengths(histogram_of(counts), 8)) EXPECT_EQ(length, 8);
}

TEST(CodeLengths, OfOneSymbolOrNoneAreZero) {
  ecq::histogram codes;
  EXPECT_EQ(ecq::limited_code_lengths(codes, 16), ecq::code_lengths{});
  EXPECT_EQ(ecq::huffman_code_lengths(codes), ecq::code_lengths{});
  codes.counts[77] = 9;
  EXPECT_EQ(ecq::limited_code_lengths(codes, 16), ecq::code_lengths{});
  EXPECT_EQ(ecq::adjusted_code_lengths(codes, 16), ecq::code_lengths{});
}

TEST(CodeLengths, OfHugeCountsDoNotOverflow) {
  std::vector<std::uint64_t> counts(256, std::uint64_t{1} << 35);
  counts[0] = 1;
  const ecq::histogram codes = histogram_of(counts);
  EXPECT_TRUE(is_complete(codes, ecq::limited_code_lengths(codes, 16)));
  EXPECT_TRUE(is_complete(codes, ecq::adjusted_code_lengths(codes, 16)));
}

}  // namespace
