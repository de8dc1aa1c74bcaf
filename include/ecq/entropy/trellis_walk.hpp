#pragma once
/// \file
/// Walks of the trellis over codes in memory: from codes to the indices that are coded, and back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_walk_avx2.hpp"
#include "ecq/entropy/trellis_walk_avx512.hpp"
#include "ecq/entropy/trellis_walk_neon.hpp"

namespace ecq::detail {

/// Writes the indices of `codes` to `indices`, which has as many bytes and may be the same memory. The first code lies
/// at a multiple of the period. Returns how many leading codes lie on the trellis; further indices mean nothing.
inline std::size_t indices_of_codes(const trellis& walk, std::span<const std::uint8_t> codes, std::uint8_t* indices) {
  const std::size_t period = std::size_t{1} << walk.period_bits;
  std::uint8_t states[lane_count];
  for (std::size_t at = 0; at < codes.size(); ++at) {
    if (at % period == 0) std::fill_n(states, lane_count, std::uint8_t{0});
    std::uint8_t& state = states[trellis::lane(at)];
    const std::uint8_t code = codes[at];
    const std::uint8_t index = trellis::index(trellis::quantizer(state), code);
    if (trellis::code(trellis::quantizer(state), index) != code) return at;
    indices[at] = index;
    state = static_cast<std::uint8_t>(walk.next(state, index & 1U));
  }
  return codes.size();
}

/// Replaces indices by their codes. The first index lies at a multiple of the period.
inline void codes_of_indices(const trellis& walk, std::span<std::uint8_t> indices, instruction_set isa) {
  const std::size_t period = std::size_t{1} << walk.period_bits;
  for (; !indices.empty(); indices = indices.subspan((std::min)(period, indices.size()))) {
    const std::size_t size = (std::min)(period, indices.size());
    std::uint8_t states[lane_count] = {};
    std::size_t at = 0;
#if ECQ_X86
    const instruction_set chosen = chosen_instruction_set(isa);
    if (chosen != instruction_set::scalar) at = size / group_symbols * group_symbols;
    if (chosen == instruction_set::avx512) {
      avx512::codes_of_groups(walk, indices.data(), at, states);
    } else if (at != 0) {
      avx2::codes_of_groups(walk, indices.data(), at, states);
    }
#elif ECQ_NEON
    at = size / group_symbols * group_symbols;  // every machine has them
    neon::codes_of_groups(walk, indices.data(), at, states);
    static_cast<void>(isa);
#else
    static_cast<void>(isa);
#endif
    for (; at < size; ++at) {
      std::uint8_t& state = states[trellis::lane(at)];
      const std::uint8_t index = indices[at];
      indices[at] = trellis::code(trellis::quantizer(state), index);
      state = static_cast<std::uint8_t>(walk.next(state, index & 1U));
    }
  }
}

}  // namespace ecq::detail
