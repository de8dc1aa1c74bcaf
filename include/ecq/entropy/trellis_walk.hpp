#pragma once
/// \file
/// Walks of the trellis over codes in memory: from codes to the indices that are coded, and back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_walk_avx2.hpp"
#include "ecq/entropy/trellis_walk_avx512.hpp"
#include "ecq/entropy/trellis_walk_neon.hpp"

namespace ecq::detail {

/// Replaces indices by their codes. The first index lies at a multiple of the period.
inline void codes_of_indices(const trellis& walk, std::span<std::uint8_t> indices, instruction_set isa) {
  const std::size_t period = std::size_t{1} << walk.period_bits;
  for (; !indices.empty(); indices = indices.subspan((std::min)(period, indices.size()))) {
    const std::size_t size = (std::min)(period, indices.size());
    std::uint8_t states[lane_count] = {};
    std::size_t at = 0;
    const instruction_set chosen = chosen_instruction_set(isa);
    if (chosen != instruction_set::scalar) at = size / group_symbols * group_symbols;
#if ECQ_X86
    if (chosen == instruction_set::avx512) {
      avx512::codes_of_groups(walk, indices.data(), at, states);
    } else if (at != 0) {
      avx2::codes_of_groups(walk, indices.data(), at, states);
    }
#elif ECQ_NEON
    if (at != 0) neon::codes_of_groups(walk, indices.data(), at, states);
#endif
    for (; at < size; ++at) {
      std::uint8_t& state = states[trellis::lane(at)];
      const std::uint8_t index = indices[at];
      indices[at] = trellis::code(trellis::quantizer(state), index);
      state = static_cast<std::uint8_t>(walk.next(state, index & 1U));
    }
  }
}

/// Replaces the indices of `chunks` by their codes. Each chunk begins at a multiple of the period.
inline void codes_of_indices(const trellis& walk, std::span<const std::span<std::uint8_t>> chunks,
                             instruction_set isa) {
#if ECQ_X86
  if (chosen_instruction_set(isa) == instruction_set::avx512) {
    constexpr std::size_t together = avx512::four_trellises::trellises;
    const std::size_t period = std::size_t{1} << walk.period_bits;
    std::uint8_t* places[together];
    std::size_t count = 0;
    for (std::span<std::uint8_t> rest : chunks) {
      for (; rest.size() >= period; rest = rest.subspan(period)) {
        places[count++] = rest.data();
        if (count == together) avx512::codes_of_four(walk, places, period);
        count %= together;
      }
      codes_of_indices(walk, rest, isa);
    }
    for (std::size_t i = 0; i < count; ++i) codes_of_indices(walk, std::span(places[i], period), isa);
    return;
  }
#endif
  for (const std::span<std::uint8_t> chunk : chunks) codes_of_indices(walk, chunk, isa);
}

/// Writes the indices of `codes` to `indices`, which has as many bytes and may be the same memory. The first code lies
/// at a multiple of the period. Returns the number of leading codes that lie on the trellis; further indices mean
/// nothing.
inline std::size_t indices_of_codes(const trellis& walk, std::span<const std::uint8_t> codes, std::uint8_t* indices,
                                    instruction_set isa) {
  // A code on the trellis determines its index. Codes lie on the trellis if their indices lead back to them.
  const std::size_t period = std::size_t{1} << walk.period_bits;
  std::vector<std::uint8_t> walked;
  for (std::size_t begin = 0; begin < codes.size(); begin += period) {
    const auto some = codes.subspan(begin, (std::min)(period, codes.size() - begin));
    walked.resize(some.size());
    std::transform(some.begin(), some.end(), walked.begin(), trellis::index);
    codes_of_indices(walk, walked, isa);
    const auto wrong = std::mismatch(some.begin(), some.end(), walked.begin()).first;
    if (wrong != some.end()) return begin + static_cast<std::size_t>(wrong - some.begin());
    std::transform(some.begin(), some.end(), indices + begin, trellis::index);
  }
  return codes.size();
}

}  // namespace ecq::detail
