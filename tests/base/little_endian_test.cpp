#include "ecq/base/little_endian.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace {

TEST(LittleEndian, PutsTheLowestByteFirst) {
  std::array<std::byte, 9> bytes{};
  ecq::store_le(&bytes[1], std::uint64_t{0x0807060504030201});
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(bytes[i], static_cast<std::byte>(i));
  EXPECT_EQ(ecq::load_le<std::uint64_t>(&bytes[1]), 0x0807060504030201U);
  EXPECT_EQ(ecq::load_le<std::uint32_t>(&bytes[3]), 0x06050403U);
  EXPECT_EQ(ecq::load_le<std::uint16_t>(&bytes[3]), 0x0403U);
}

template <class Word>
constexpr bool keeps(Word value) {
  std::array<std::byte, 8> bytes{};
  ecq::store_le(bytes.data(), value);
  return ecq::load_le<Word>(bytes.data()) == value;
}

TEST(LittleEndian, IsTheSameAtCompileTime) {
  static_assert(keeps<std::uint8_t>(0xFE));
  static_assert(keeps<std::uint16_t>(0xFEDC));
  static_assert(keeps<std::uint32_t>(0xFEDCBA98));
  static_assert(keeps<std::uint64_t>(0xFEDCBA9876543210));
  EXPECT_TRUE(keeps<std::uint64_t>(0xFEDCBA9876543210));
}

}  // namespace
