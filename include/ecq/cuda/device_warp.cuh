#pragma once
/// \file
/// The warp policy on a device: a lane is a thread, its value a register. Mirrors stream/host_warp.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/stream/lanes.hpp"

namespace ecq {

/// All 32 threads of the warp call every function together.
struct device_warp {
  static_assert(lane_count == 32, "a warp has 32 lanes");

  using lanes = std::uint32_t;
  using flags = bool;

  static __device__ lanes lane_numbers() { return threadIdx.x % lane_count; }
  static __device__ flags all() { return true; }
  static __device__ flags below(lanes a, lanes b) { return a < b; }
  static __device__ flags both(flags a, flags b) { return a && b; }
  static __device__ std::uint32_t ballot(flags set) { return __ballot_sync(0xFFFFFFFFU, set); }
  static __device__ std::uint32_t count(std::uint32_t ballot) { return static_cast<std::uint32_t>(__popc(ballot)); }
  static __device__ lanes set_below(std::uint32_t ballot) { return count(ballot & ((1U << lane_numbers()) - 1U)); }
  static __device__ lanes select(flags which, lanes yes, lanes no) { return which ? yes : no; }
  static __device__ lanes funnel_right(lanes low, lanes high, lanes bits) { return __funnelshift_r(low, high, bits); }

  template <class Entry>
  static __device__ lanes gather(const Entry* table, lanes index) {
    return table[index];
  }

  static __device__ void gather(const std::uint64_t* table, lanes index, lanes& low, lanes& high) {
    const std::uint64_t entry = table[index];
    low = static_cast<std::uint32_t>(entry);
    high = static_cast<std::uint32_t>(entry >> 32);
  }

  template <class Word>
  static __device__ lanes load(flags which, const std::byte* from, lanes index) {
    return which ? reinterpret_cast<const Word*>(from)[index] : 0U;
  }

  static __device__ void store(std::uint8_t* to, lanes bytes, std::uint32_t limit) {
    const std::uint32_t first = rounds_per_group * lane_numbers();
    if (first + rounds_per_group <= limit) {
      *reinterpret_cast<std::uint32_t*>(to + first) = bytes;
      return;
    }
    for (std::uint32_t i = 0; first + i < limit && i < rounds_per_group; ++i) {
      to[first + i] = static_cast<std::uint8_t>(bytes >> (8 * i));
    }
  }
};

}  // namespace ecq
