#pragma once
/// \file
/// States of a trellis's lanes, forwards over codes and one step back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq::detail {

/// States of all lanes.
using lane_states = std::array<std::uint8_t, lane_count>;

/// Returns the state from which an index of `parity` leads to `state`. For either parity, that state has the same
/// quantiser: the highest bit of `state`.
constexpr unsigned state_before(const trellis& walk, unsigned state, unsigned parity) noexcept {
  const unsigned quantizer = state >> (walk.state_bits - 1);
  const unsigned rest = state ^ (quantizer * walk.next(1, 0)) ^ (parity * walk.next(0, 1));
  return ((rest << 1) | quantizer) & (walk.states() - 1);
}

/// Input and output of a search for the paths of several lanes side by side (trellis_search.hpp). Arrays for steps have
/// one element for each lane in every step.
struct lane_run {
  const float* cells;         ///< path_costs::cells(), 8 numbers each
  const std::int32_t* codes;  ///< path_costs::codes()
  float per_step;             ///< cells per step between codes
  float first_weight;         ///< the beginning of the first cell
  float limit;                ///< weights of larger magnitude count as this or its negative
  const float* weights;       ///< from the first lane's first step on; groups are group_symbols apart
  std::size_t groups;
  const std::int32_t* first_steps;  ///< for each lane, the first step that exists
  const std::int32_t* last_steps;   ///< for each lane, the step behind the last that exists
  const std::uint8_t* states;       ///< states in which the lanes begin
  std::int32_t* places;             ///< room for all steps
  std::int32_t* decisions;          ///< room for all steps
  std::uint8_t* out;                ///< codes, laid out like weights
};

/// Returns the states behind `codes`, the first codes of a stream, which lie on the trellis.
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
