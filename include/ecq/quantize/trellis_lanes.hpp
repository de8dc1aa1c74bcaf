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

/// What a search for paths of some lanes side by side reads and writes (trellis_search.hpp). Arrays for steps have as
/// many elements a step, one for each lane.
struct lane_run {
  const float* cells;         ///< path_costs::cells(), 8 numbers each
  const std::int32_t* codes;  ///< path_costs::codes()
  float per_step;             ///< cells in a step of the codes
  float first_weight;         ///< where the first cell begins
  float limit;                ///< of the magnitude of weights
  const float* weights;       ///< of the first lane's first step; a group is group_symbols further
  std::size_t groups;
  const std::int32_t* first_steps;  ///< the steps of each lane that exist
  const std::int32_t* last_steps;
  const std::uint8_t* states;  ///< where the lanes begin
  std::int32_t* places;        ///< room for all steps
  std::int32_t* decisions;     ///< room for all steps
  std::uint8_t* out;           ///< codes, as weights are
};

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
