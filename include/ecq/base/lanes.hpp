#pragma once
/// \file
/// Distribution of the symbols of a chunk over its lanes. The numbers are wire format: kernels static_assert on them.
///
/// Symbol j of a chunk belongs to lane (j % 128) / 4; the lanes code in step, one symbol each, in ascending order of
/// group j / 128 and then of round j % 4. So a lane owns four neighbours of each group and can store them as one 32-bit
/// word.

#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq {

inline constexpr std::uint32_t lane_count = 32;       ///< lanes of a chunk: the threads of a warp
inline constexpr std::uint32_t rounds_per_group = 4;  ///< symbols of a lane in a group
inline constexpr std::uint32_t group_symbols = lane_count * rounds_per_group;  ///< 128

/// Returns the number of lanes that have a symbol in round `round` of a group in which `left` symbols remain; these are
/// always the lowest lanes.
ECQ_HOST_DEVICE constexpr std::uint32_t lanes_in_step(std::uint32_t left, std::uint32_t round) noexcept {
  if (left >= group_symbols) return lane_count;
  return left > round ? (left - round + rounds_per_group - 1) / rounds_per_group : 0;
}

/// Bytes that a decoder may read beyond the end of any section of a stream.
inline constexpr std::uint64_t stream_tail_bytes = 128;

}  // namespace ecq
