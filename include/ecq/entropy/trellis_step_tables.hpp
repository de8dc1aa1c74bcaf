#pragma once
/// \file
/// Effect of four steps of a lane of a trellis, and tables of it for kernels that take the four steps at once.

#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq::detail {

/// State and quantisers that result from the steps of a lane in one group.
struct four_steps {
  constexpr four_steps(const trellis& walk, unsigned from, unsigned parities) : state(from) {
    for (unsigned step = 0; step < rounds_per_group; ++step) {
      quantizers |= trellis::quantizer(state) << step;
      state = walk.next(state, parities >> step & 1U);
    }
  }

  unsigned state;           ///< state after the steps
  unsigned quantizers = 0;  ///< quantisers of the steps, the first one's lowest; so are `parities`
};

/// Tables for four steps of a lane at once. Steps are linear, so the effect of state and parities together is the
/// exclusive or of the effect of each alone. A lane has a byte: bits 0 to 3 of the state that the steps lead to, then
/// the quantisers of the second, third and fourth step, then bit 4 of the state. The first quantiser is bit 0 of the
/// byte before. With up to 16 states the highest bit is 0, so that a byte shuffle can take the byte as it is and look
/// up its lowest four bits.
struct trellis_step_tables {
  std::uint8_t from_parities[16] = {};
  std::uint8_t from_state[16] = {};
  std::uint8_t from_highest;  ///< for states 16 to 31: exclusive-ored with the entry of their lowest bits

  constexpr explicit trellis_step_tables(const trellis& walk) : from_highest(after(walk, 16 % walk.states(), 0)) {
    for (unsigned i = 0; i < 16; ++i) {
      from_parities[i] = after(walk, 0, i);
      from_state[i] = after(walk, i % walk.states(), 0);
    }
  }

  /// Returns the state that a lane's byte holds.
  static std::uint8_t state(const trellis& walk, std::uint32_t byte) noexcept {
    return static_cast<std::uint8_t>((byte & 15U & (walk.states() - 1U)) | byte >> 7 << 4);
  }

 private:
  /// Returns the byte that `state` and `parities`, the first one lowest, lead to.
  static constexpr std::uint8_t after(const trellis& walk, unsigned state, unsigned parities) {
    const four_steps to(walk, state, parities);
    return static_cast<std::uint8_t>(to.state % 16 | to.quantizers >> 1 << 4 | to.state / 16 << 7);
  }
};

/// Tables by the binary logarithm of the number of states, from trellis::min_state_bits on.
inline constexpr trellis_step_tables tables_of_steps[] = {trellis_step_tables({2}), trellis_step_tables({3}),
                                                          trellis_step_tables({4}), trellis_step_tables({5})};

inline const trellis_step_tables& tables_of(const trellis& walk) noexcept {
  return tables_of_steps[walk.state_bits - trellis::min_state_bits];
}

}  // namespace ecq::detail
