#include "ecq/stream/bit_io.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/codes.hpp"

namespace {

TEST(RawBits, LieAtBitTimesIndex) {
  for (unsigned bits = 0; bits <= 8; ++bits) {
    for (std::size_t size = 0; size < 70; ++size) {
      const auto codes = ecq_test::code_source(size).uniform(size);
      std::vector<std::byte> packed(static_cast<std::size_t>(ecq::raw_bytes(size, bits)) + 8);
      ecq::pack_raw_bits({bits}, codes, packed.data());
      for (std::size_t i = 0; i < 8 * packed.size(); ++i) {
        const bool expected = i / (bits + (bits == 0)) < size && bits != 0 && (codes[i / bits] >> (i % bits) & 1) != 0;
        ASSERT_EQ((static_cast<unsigned>(packed[i / 8]) >> (i % 8) & 1U) != 0, expected);
      }
    }
  }
}

TEST(RawBits, JoinWhatWasSplit) {
  for (unsigned bits = 0; bits <= 8; ++bits) {
    const ecq::split_map map{bits};
    for (std::size_t size = 0; size < 70; ++size) {
      const auto codes = ecq_test::code_source(size).uniform(size);
      std::vector<std::byte> packed(static_cast<std::size_t>(ecq::raw_bytes(size, bits)) + 8);
      ecq::pack_raw_bits(map, codes, packed.data());
      std::vector<std::uint8_t> joined;
      for (const std::uint8_t code : codes) joined.push_back(map.join(map.coded(code), 0));
      ecq::merge_raw_bits(map, packed.data(), joined);
      ASSERT_EQ(joined, codes) << bits;
    }
  }
}

TEST(RawBits, AreCountedWithoutOverflow) {
  EXPECT_EQ(ecq::raw_bytes(0, 5), 0U);
  EXPECT_EQ(ecq::raw_bytes(1, 1), 1U);
  EXPECT_EQ(ecq::raw_bytes(9, 7), 8U);
  EXPECT_EQ(ecq::raw_bytes(~std::uint64_t{0}, 8), ~std::uint64_t{0});
}

}  // namespace
