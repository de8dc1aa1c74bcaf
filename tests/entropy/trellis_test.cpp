#include "ecq/entropy/trellis.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace {

using ecq::trellis;

TEST(Trellis, HasACodeForEachIndexOfEachQuantizer) {
  for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
    for (int index = -64; index <= 63; ++index) {
      const std::uint8_t code = trellis::code(quantizer, static_cast<std::uint8_t>(index));
      EXPECT_EQ(static_cast<std::int8_t>(code), 2 * index + static_cast<int>(quantizer));
      EXPECT_EQ(static_cast<std::int8_t>(trellis::index(code)), index);
    }
  }
}

TEST(Trellis, KnowsIndexAndQuantizerOfEveryCode) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(trellis::code(code % 2, trellis::index(byte)), byte) << code;
  }
}

// Two steps lead into each state, and steps are linear, which lets decoders take four at once.
TEST(Trellis, StepsAreLinear) {
  for (unsigned bits = trellis::min_state_bits; bits <= trellis::max_state_bits; ++bits) {
    const trellis walk{.state_bits = bits};
    std::multiset<unsigned> reached;
    for (unsigned state = 0; state < walk.states(); ++state) {
      EXPECT_NE(walk.next(state, 0), walk.next(state, 1));
      for (unsigned parity = 0; parity < 2; ++parity) {
        EXPECT_LT(walk.next(state, parity), walk.states());
        EXPECT_EQ(walk.next(state, parity), walk.next(state, 0) ^ walk.next(0, parity));
        reached.insert(walk.next(state, parity));
      }
    }
    for (unsigned state = 0; state < walk.states(); ++state) EXPECT_EQ(reached.count(state), 2U);
  }
}

}  // namespace
