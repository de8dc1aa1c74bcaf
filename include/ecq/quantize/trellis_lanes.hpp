#pragma once
/// \file
/// The states of a trellis's lanes, forwards over codes and one step back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq::detail {

/// The states of all lanes.
using lane_states = std::array<std::uint8_t, lane_count>;

/// The state from which an index of `parity` leads to `state`. Both of them have the same quantiser: the highest bit of
/// `state`.
constexpr unsigned state_before(const trellis& walk, unsigned state, unsigned parity) noexcept {
  const unsigned quantizer = state >> (walk.state_bits - 1);
  const unsigned rest = state ^ (quantizer * walk.next(1, 0)) ^ (parity * walk.next(0, 1));
  return ((rest << 1) | quantizer) & (walk.states() - 1);
}

/// The states behind the first codes of a stream. `codes` lie on the trellis.
inline lane_states states_behind(const trellis& walk, std::span<const std::byte> codes) noexcept {
  lane_states states{};
  const std::size_t period = std::size_t{1} << walk.period_bits;
  for (std::size_t at = codes.size() / period * period; at < codes.size(); ++at) {
    std::uint8_t& state = states[trellis::lane(at)];
    const auto code = static_cast<std::uint8_t>(codes[at]);
    state = static_cast<std::uint8_t>(walk.next(state, trellis::index(code) & 1U));
  }
  return states;
}

}  // namespace ecq::detail
