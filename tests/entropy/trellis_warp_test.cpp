#include "ecq/entropy/trellis_warp.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/codes.hpp"
#include "support/host_warp.hpp"
#include "support/trellis_path.hpp"

namespace {

using ecq::host_lanes;
using ecq::trellis;
using walker = ecq::warp_trellis<ecq::host_warp>;

std::vector<trellis> all_walks() {
  std::vector<trellis> all;
  for (unsigned state_bits = trellis::min_state_bits; state_bits <= trellis::max_state_bits; ++state_bits) {
    for (const unsigned period_bits : {10U, 11U, 18U}) all.push_back({state_bits, period_bits});
  }
  return all;
}

/// Returns for each lane the four bytes of `all` from `from + apart * lane` on.
host_lanes words_of(const std::vector<std::uint8_t>& all, std::size_t from, std::size_t apart) {
  return host_lanes::each([&](std::uint32_t lane) {
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < 4; ++i) word |= std::uint32_t{all[from + apart * lane + i]} << (8 * i);
    return word;
  });
}

// Any byte is a valid index, and the chunk has several periods.
TEST(TrellisWarp, GivesTheCodesOfGroups) {
  for (const trellis& walk : all_walks()) {
    const auto indices = ecq_test::code_source(walk.state_bits).uniform(5 * 1024);
    const auto codes = ecq_test::path_of(walk, indices);
    walker warp(walk);
    ASSERT_TRUE(warp.walks());
    for (std::uint32_t group = 0; group < indices.size() / 128; ++group) {
      const auto got = warp(words_of(indices, std::size_t{128} * group, 4), group);
      ASSERT_EQ(got.value, words_of(codes, std::size_t{128} * group, 4).value)
          << walk.state_bits << ' ' << walk.period_bits << ' ' << group;
    }
  }
}

TEST(TrellisWarp, GivesTheCodesOfTwoGroupsAtOnce) {
  for (const trellis& walk : all_walks()) {
    const auto indices = ecq_test::code_source(walk.state_bits).uniform(5 * 1024);
    const auto codes = ecq_test::path_of(walk, indices);
    walker warp(walk);
    for (std::uint32_t pair = 0; pair < indices.size() / 256; ++pair) {
      const std::size_t from = std::size_t{256} * pair;
      host_lanes words[2] = {words_of(indices, from, 8), words_of(indices, from + 4, 8)};
      warp.walk_two(words, pair);
      for (std::size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(words[i].value, words_of(codes, from + 4 * i, 8).value)
            << walk.state_bits << ' ' << walk.period_bits << ' ' << pair << ' ' << i;
      }
    }
  }
}

TEST(TrellisWarp, KnowsThatThereIsNone) { EXPECT_FALSE(walker({0, 0}).walks()); }

}  // namespace
