#include "ecq/entropy/huffman/huffman_multi_lut.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "ecq/entropy/huffman/code_lengths.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman/huffman_table.hpp"

namespace {

using entry = ecq::huffman_multi_entry;
using table = ecq::huffman_table<32>;

/// Returns a table in which symbol i is 2^-i as common as symbol 0.
table halving(unsigned symbols) {
  ecq::histogram coded;
  for (unsigned i = 0; i < symbols; ++i) coded.counts[i] = std::uint64_t{1} << (symbols - i);
  return table::of(coded, ecq::limited_code_lengths(coded, table::limit));
}

TEST(HuffmanMultiLut, FindsWhatSingleLookUpsFindOneByOne) {
  for (const unsigned symbols : {2U, 3U, 9U, 12U, 13U, 33U}) {
    const table code = halving(symbols);
    const ecq::huffman_wide wide(code);
    const ecq::huffman_multi multi(code, 2);
    for (std::uint32_t bits = 0; bits < 1U << ecq::huffman_multi::bits; ++bits) {
      const std::uint64_t found = multi.entries()[bits];
      const unsigned steps = entry::step(found);
      std::uint64_t starts = 0;
      unsigned used = 0;
      for (unsigned i = 0; i < entry::count(steps); ++i) {
        const unsigned next = wide.view().look_up(bits >> used);
        EXPECT_EQ((found >> (8 * i)) & 0xFFU, (ecq::huffman_entry::value(next) << 2) & 0xFFU);
        starts |= std::uint64_t{1} << used;
        used += ecq::huffman_entry::length(next);
      }
      EXPECT_EQ(entry::starts(found), starts);
      EXPECT_EQ(entry::length(steps), used);
      ASSERT_LE(used, ecq::huffman_multi::bits);
      // An entry stops only where the next code word would not end within the bits, or where the entry is full.
      if (entry::count(steps) < entry::most) {
        EXPECT_GT(used + ecq::huffman_entry::length(wide.view().look_up(bits >> used)), ecq::huffman_multi::bits);
      }
    }
  }
}

TEST(HuffmanMultiLut, SumsOfStepsAreSumsOfLengthsAndCounts) {
  const table code = halving(9);
  const ecq::huffman_multi multi(code, 0);
  for (std::uint32_t bits = 0; bits + 4 < 1U << ecq::huffman_multi::bits; bits += 3) {
    unsigned steps = 0, length = 0, count = 0;
    for (std::uint32_t i = 0; i < 5; ++i) {
      const unsigned step = entry::step(multi.entries()[bits + i]);
      steps += step;
      length += entry::length(step);
      count += entry::count(step);
    }
    EXPECT_EQ(entry::length(steps), length);
    EXPECT_EQ(entry::count(steps), count);
  }
}

TEST(HuffmanMultiLut, LongWordsHaveNoEntry) {
  const table code = halving(33);
  const ecq::huffman_multi multi(code, 0);
  EXPECT_EQ(multi.entries()[(1U << ecq::huffman_multi::bits) - 1], 0U);
  EXPECT_EQ(entry::count(entry::step(multi.entries()[0])), entry::most);
}

}  // namespace
