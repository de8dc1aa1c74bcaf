#include "ecq/entropy/rans/alias_encoding.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "ecq/entropy/rans/alias_table.hpp"
#include "entropy/rans/random_frequencies.hpp"

namespace {

// Expects the encoder to find for each rank the slot from which the decoder finds that rank.
void expect_inverse(const std::vector<std::uint32_t>& frequencies, unsigned bucket_bits) {
  const ecq::alias_table aliases = ecq::alias_table::build(frequencies, bucket_bits);
  const ecq::detail::alias_encoding encoding(frequencies, aliases);
  for (std::uint32_t slot = 0; slot < 65536; ++slot) {
    const std::uint32_t bucket = slot & ((1U << bucket_bits) - 1U);
    const std::uint32_t offset = slot >> bucket_bits;
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t symbol = own ? bucket : aliases.alias[bucket];
    const std::uint32_t rank = own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU;
    ASSERT_LT(rank, frequencies[symbol]);
    ASSERT_EQ(encoding.slot(symbol, rank), slot) << "rank " << rank << " of symbol " << symbol;
  }
}

void expect_inverse(const std::vector<std::uint32_t>& frequencies) {
  if (frequencies.size() <= 32) expect_inverse(frequencies, 5);
  expect_inverse(frequencies, 6);
}

TEST(AliasEncoding, FindsTheSlotOfEachRank) {
  std::mt19937 random(5);
  for (std::size_t count = 2; count <= 64; ++count) expect_inverse(ecq_test::random_frequencies(random, count));
}

// Buckets that belong wholly to their own symbol or wholly to their alias, and symbols whose slots all lie in other
// buckets.
TEST(AliasEncoding, TakesFullAndEmptyBuckets) {
  expect_inverse(std::vector<std::uint32_t>(64, 1024));
  expect_inverse(std::vector<std::uint32_t>(32, 2048));
  expect_inverse({65535, 1});
  expect_inverse({1, 65535});
  std::vector<std::uint32_t> spike(64, 1);
  spike[63] = 65536 - 63;
  expect_inverse(spike);
  spike = std::vector<std::uint32_t>(32, 1);
  spike[0] = 65536 - 31;
  expect_inverse(spike);
}

TEST(AliasEncoding, DividesByNormalizedFrequencies) {
  std::mt19937 random(7);
  for (std::size_t count = 2; count <= 64; ++count) {
    const std::vector<std::uint32_t> frequencies = ecq_test::random_frequencies(random, count);
    const ecq::detail::alias_encoding encoding(frequencies, ecq::alias_table::build(frequencies, 6));
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned shift = encoding.own_and_shift[i] % 16;
      const std::uint64_t divisor = encoding.divisor[i];
      EXPECT_EQ(divisor, frequencies[i] << shift);
      EXPECT_GE(divisor, 32768U);
      EXPECT_EQ(std::uint64_t{encoding.reciprocal[i]} + 65536, ((std::uint64_t{1} << 32) - 1) / divisor);
    }
  }
}

}  // namespace
