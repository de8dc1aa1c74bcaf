#include "ecq/entropy/nibble_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using ecq::nibble_list;

ecq::histogram counts_of(std::initializer_list<std::pair<unsigned, std::uint64_t>> counts) {
  ecq::histogram made;
  for (const auto& [symbol, count] : counts) made.counts[symbol] = count;
  return made;
}

TEST(NibbleList, HoldsTheMostFrequentSymbolsInAscendingOrder) {
  ecq::histogram counts;
  for (unsigned symbol = 100; symbol < 120; ++symbol) counts.counts[symbol] = symbol % 2 == 0 ? 50 : symbol;
  const auto list = nibble_list::of(counts, 8);
  EXPECT_TRUE(list.has_escape());
  // All odd symbols and, of the even ones, which are equally common, the smallest.
  EXPECT_EQ(list.symbols, (std::array<std::uint8_t, 16>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 111, 113, 115,
                                                        117, 119, 0}));
  const auto nibbles = list.nibbles();
  EXPECT_EQ(nibbles[100], 0);
  EXPECT_EQ(nibbles[119], 14);
  EXPECT_EQ(nibbles[110], nibble_list::escape_value);
  EXPECT_EQ(nibbles[0], nibble_list::escape_value);
}

TEST(NibbleList, NeedsNoEscapeForSixteenSymbols) {
  ecq::histogram counts;
  for (unsigned i = 0; i < 16; ++i) counts.counts[255 - 16 * i] = 1 + i % 3;
  const auto list = nibble_list::of(counts, 8);
  EXPECT_FALSE(list.has_escape());
  for (unsigned i = 0; i < 16; ++i) {
    EXPECT_EQ(list.symbols[i], 15 + 16 * i);
    EXPECT_EQ(list.nibbles()[15 + 16 * i], i);
  }
  counts.counts[0] = 1;
  EXPECT_TRUE(nibble_list::of(counts, 8).has_escape());
}

TEST(NibbleList, IsFilledUpWithTheSmallestSymbols) {
  const auto list = nibble_list::of(counts_of({{31, 5}, {2, 1}}), 5);
  EXPECT_FALSE(list.has_escape());
  EXPECT_EQ(list.symbols, (std::array<std::uint8_t, 16>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 31}));
  EXPECT_EQ(nibble_list::of({}, 4), nibble_list{});
}

TEST(NibbleList, ReadsWhatAscendsAndNothingElse) {
  const auto good = nibble_list::of(counts_of({{3, 1}, {30, 1}}), 5);
  std::array<std::byte, 16> bytes;
  std::ranges::transform(good.symbols, bytes.begin(), [](std::uint8_t symbol) { return std::byte{symbol}; });
  ASSERT_TRUE(nibble_list::read(bytes, 5));
  EXPECT_EQ(*nibble_list::read(bytes, 5), good);
  EXPECT_FALSE(nibble_list::read(bytes, 4));  // 30 has five bits
  for (std::size_t at = 0; at < 16; ++at) {
    auto bad = bytes;
    bad[at] = at == 0 ? bytes[1] : bytes[at - 1];
    EXPECT_FALSE(nibble_list::read(bad, 5)) << at;
  }
  auto escaping = bytes;
  escaping[15] = std::byte{0};
  ASSERT_TRUE(nibble_list::read(escaping, 5));
  EXPECT_TRUE(nibble_list::read(escaping, 5)->has_escape());
  escaping[14] = std::byte{32};
  EXPECT_FALSE(nibble_list::read(escaping, 5));
  EXPECT_TRUE(nibble_list::read(escaping, 8));
}

}  // namespace
