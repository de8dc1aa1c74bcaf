#include "ecq/entropy/rans/alias_table.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "entropy/rans/random_frequencies.hpp"

namespace {

// Expects every slot to belong to one symbol, and the ranks of a symbol to be 0 .. frequency - 1, each once.
void expect_bijection(const std::vector<std::uint32_t>& frequencies, unsigned bucket_bits) {
  const ecq::alias_table table = ecq::alias_table::build(frequencies, bucket_bits);
  std::vector<std::vector<bool>> seen;
  for (const std::uint32_t frequency : frequencies) seen.emplace_back(frequency, false);
  for (std::uint32_t slot = 0; slot < 65536; ++slot) {
    const std::uint32_t bucket = slot & ((1U << bucket_bits) - 1U);
    const std::uint32_t offset = slot >> bucket_bits;
    const bool own = offset < table.divider[bucket];
    const std::uint32_t symbol = own ? bucket : table.alias[bucket];
    const std::uint32_t rank = own ? offset : (offset + table.adjust[bucket]) & 0xFFFFU;
    ASSERT_LT(symbol, frequencies.size());
    ASSERT_LT(rank, frequencies[symbol]);
    ASSERT_FALSE(seen[symbol][rank]);
    seen[symbol][rank] = true;
  }
}

TEST(AliasTable, GivesEverySymbolItsSlots) {
  std::mt19937 random(1);
  for (const unsigned bucket_bits : {5U, 6U}) {
    for (std::size_t count = 2; count <= (std::size_t{1} << bucket_bits); count += 3) {
      expect_bijection(ecq_test::random_frequencies(random, count), bucket_bits);
    }
  }
}

TEST(AliasTable, TakesEqualAndExtremeFrequencies) {
  expect_bijection(std::vector<std::uint32_t>(64, 1024), 6);
  expect_bijection(std::vector<std::uint32_t>(32, 2048), 5);
  expect_bijection({65535, 1}, 5);
  expect_bijection({1, 65535}, 6);
  std::vector<std::uint32_t> spike(64, 1);
  spike[63] = 65536 - 63;
  expect_bijection(spike, 6);
}

}  // namespace
