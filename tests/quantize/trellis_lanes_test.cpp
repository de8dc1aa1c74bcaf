#include "ecq/quantize/trellis_lanes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>

#include "support/trellis_path.hpp"

namespace {

using ecq::trellis;

TEST(TrellisLanes, AStepBackUndoesAStep) {
  for (unsigned bits = trellis::min_state_bits; bits <= trellis::max_state_bits; ++bits) {
    const trellis walk{.state_bits = bits};
    for (unsigned state = 0; state < walk.states(); ++state) {
      for (unsigned parity = 0; parity < 2; ++parity) {
        const unsigned before = ecq::detail::state_before(walk, state, parity);
        ASSERT_LT(before, walk.states());
        EXPECT_EQ(walk.next(before, parity), state);
        EXPECT_EQ(trellis::quantizer(before), state >> (bits - 1));
      }
    }
  }
}

// The rest of a stream's codes continues from the states behind its first part.
TEST(TrellisLanes, FollowCodes) {
  const trellis walk{.state_bits = 4, .period_bits = 10};
  const auto path = ecq_test::random_path(walk, 3000, 9);
  for (const std::size_t count : {0U, 1U, 5U, 128U, 131U, 1023U, 1024U, 1025U, 2500U}) {
    auto states = ecq::detail::states_behind(walk, std::as_bytes(std::span(path.codes).first(count)));
    for (std::size_t at = count; at < path.codes.size() && (at == count || at % 1024 != 0); ++at) {
      auto& state = states[trellis::lane(at)];
      ASSERT_EQ(trellis::code(trellis::quantizer(state), path.indices[at]), path.codes[at]) << count << ' ' << at;
      state = static_cast<std::uint8_t>(walk.next(state, path.indices[at] & 1U));
    }
  }
}

}  // namespace
