#include "ecq/entropy/symbol_map.hpp"

#include <gtest/gtest.h>

namespace {

TEST(SplitMap, JoinsWhatItSplits) {
  for (unsigned bits = 0; bits <= 8; ++bits) {
    const ecq::split_map map{bits};
    for (unsigned code = 0; code < 256; ++code) {
      const auto byte = static_cast<std::uint8_t>(code);
      EXPECT_EQ(map.join(map.coded(byte), map.raw(byte)), byte);
      EXPECT_LT(map.raw(byte), 1U << bits);
      EXPECT_LT(map.coded(byte), 256U >> bits);
    }
  }
}

}  // namespace
