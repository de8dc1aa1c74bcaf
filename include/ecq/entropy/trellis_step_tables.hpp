#pragma once
/// \file
/// What four steps of a lane of a trellis lead to, and tables of it for kernels that take them at once.

#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq::detail {

/// What the steps of a lane in one group lead to.
struct four_steps {
  constexpr four_steps(const trellis& walk, unsigned from, unsigned parities) : state(from) {
    for (unsigned step = 0; step < rounds_per_group; ++step) {
      quantizers |= trellis::quantizer(state) << step;
      state = walk.next(state, parities >> step & 1U);
    }
  }

  unsigned state;           ///< behind the steps
  unsigned quantizers = 0;  ///< of the steps, the first one's lowest; so are `parities`
};

/// Four steps of a lane at once. Steps are linear, so what state and parities lead to is the exclusive or of what
/// either leads to alone. A lane has a byte: bits 0 to 3 of the state that the steps lead to, then the quantisers of
/// the second, third and fourth step, then bit 4 of the state. The first quantiser is bit 0 of the byte before. With up
/// to 16 states the highest bit is 0, so that the byte picks from a table as it is: by its lowest four bits.
struct trellis_step_tables {
  std::uint8_t from_parities[16] = {};
  std::uint8_t from_state[16] = {};
  std::uint8_t from_highest;  ///< of states 16 to 31, besides what their lowest bits lead to

  constexpr explicit trellis_step_tables(const trellis& walk) : from_highest(after(walk, 16 % walk.states(), 0)) {
    for (unsigned i = 0; i < 16; ++i) {
      from_parities[i] = after(walk, 0, i);
      from_state[i] = after(walk, i % walk.states(), 0);
    }
  }

  /// The state that a lane's byte tells of.
  static std::uint8_t state(const trellis& walk, std::uint32_t byte) noexcept {
    return static_cast<std::uint8_t>((byte & 15U & (walk.states() - 1U)) | byte >> 7 << 4);
  }

 private:
  /// The byte that `state` and `parities`, the first of them lowest, lead to.
  static constexpr std::uint8_t after(const trellis& walk, unsigned state, unsigned parities) {
    const four_steps to(walk, state, parities);
    return static_cast<std::uint8_t>(to.state % 16 | to.quantizers >> 1 << 4 | to.state / 16 << 7);
  }
};

/// By the binary logarithm of the states, from trellis::min_state_bits on.
inline constexpr trellis_step_tables tables_of_steps[] = {trellis_step_tables({2}), trellis_step_tables({3}),
                                                          trellis_step_tables({4}), trellis_step_tables({5})};

inline const trellis_step_tables& tables_of(const trellis& walk) noexcept {
  return tables_of_steps[walk.state_bits - trellis::min_state_bits];
}

}  // namespace ecq::detail
