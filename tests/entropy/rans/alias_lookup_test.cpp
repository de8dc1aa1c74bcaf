#include "ecq/entropy/rans/alias_lookup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "ecq/entropy/rans/alias_table.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/entropy/rans/rans_table.hpp"
#include "entropy/rans/random_frequencies.hpp"

namespace {

// Expects kernels to read from registers what the alias table says of every slot. Symbols are in descending order, so
// that a code is not the number of its symbol.
template <unsigned BucketBits>
void expect_same(const std::vector<std::uint32_t>& frequencies) {
  ecq::rans_table table{.mapping = ecq::slot_mapping::alias, .bucket_bits = BucketBits, .frequencies = {}};
  table.frequencies.scale_bits = 16;
  table.frequencies.count = static_cast<unsigned>(frequencies.size());
  std::copy(frequencies.begin(), frequencies.end(), table.frequencies.frequencies.begin());
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    table.frequencies.symbols[i] = static_cast<std::uint8_t>(200 - i);
  }
  const ecq::rans_slots slots(table, {});
  const ecq::detail::alias_lookup<BucketBits> lookup(slots.view());
  const ecq::alias_table aliases = ecq::alias_table::build(frequencies, BucketBits);
  for (std::uint32_t slot = 0; slot < 65536; ++slot) {
    const std::uint32_t bucket = slot & ((1U << BucketBits) - 1U);
    const std::uint32_t offset = slot >> BucketBits;
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t symbol = own ? bucket : aliases.alias[bucket];

    const std::uint32_t found = lookup.bucket[bucket];
    const std::uint32_t number = (std::min)(slot, found) & ((1U << BucketBits) - 1U);
    const std::uint32_t rank = (offset + (slot >= found ? lookup.adjust[bucket] : 0U)) & 0xFFFFU;
    ASSERT_EQ(number, symbol) << slot;
    ASSERT_EQ(rank, own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU) << slot;
    ASSERT_EQ(lookup.frequency[number], frequencies[symbol]) << slot;
    ASSERT_EQ(lookup.code[number], 200 - symbol) << slot;
  }
}

void expect_same(const std::vector<std::uint32_t>& frequencies) {
  if (frequencies.size() <= 32) expect_same<5>(frequencies);
  expect_same<6>(frequencies);
}

TEST(AliasLookup, SaysWhatTheTableSays) {
  std::mt19937 random(3);
  for (std::size_t count = 2; count <= 64; ++count) expect_same(ecq_test::random_frequencies(random, count));
}

// Buckets that belong wholly to their own symbol or wholly to their alias, and symbols whose slots all lie in other
// buckets.
TEST(AliasLookup, TakesFullAndEmptyBuckets) {
  expect_same(std::vector<std::uint32_t>(64, 1024));
  expect_same(std::vector<std::uint32_t>(32, 2048));
  expect_same({65535, 1});
  expect_same({1, 65535});
  std::vector<std::uint32_t> widths(33, 1024);
  widths[7] = 65536 - 32 * 1024;
  expect_same(widths);
  widths = std::vector<std::uint32_t>(17, 2048);
  widths[0] = 65536 - 16 * 2048;
  expect_same(widths);
  std::vector<std::uint32_t> spike(64, 1);
  spike[63] = 65536 - 63;
  expect_same(spike);
}

}  // namespace
