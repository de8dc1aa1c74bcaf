#pragma once
/// \file
/// The gap_group of a device. Mirrors tests/support/host_gap_group.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/cuda/device_group.cuh"
#include "ecq/cuda/device_warp.cuh"
#include "ecq/entropy/huffman_gaps/huffman_gap_group.hpp"

namespace ecq {

/// A group of the 128 threads of a block. All of them call `sync`, `any`, `exclusive_sum_and_any` and `each_warp`
/// together.
class device_gap_group : public device_steps<128> {
 public:
  using warp = device_warp;

  /// Number of words that the group itself uses, at the beginning of the shared memory that the constructor takes.
  static constexpr std::uint32_t own_words = 4;
  explicit __device__ device_gap_group(std::uint32_t* shared) : own_(shared) {}

  __device__ std::uint32_t* shared() const { return own_ + own_words; }

  template <class Body>
  static __device__ void each_warp(Body&& body) {
    body(device_warp::uniform(threadIdx.x / lane_count));
  }

  static __device__ bool any(std::uint32_t flag) { return __syncthreads_or(static_cast<int>(flag)) != 0; }

  __device__ bool exclusive_sum_and_any(std::uint32_t& count, std::uint32_t& sum, std::uint32_t flag) const {
    static_assert(size() / lane_count == own_words, "a word a warp");
    const std::uint32_t lane = device_warp::lane_numbers();
    const std::uint32_t up_to = device_lanes<lane_count>::inclusive_sum(count);
    const std::uint32_t warp_number = threadIdx.x / lane_count;
    if (lane == lane_count - 1) own_[warp_number] = up_to;
    const bool flagged = any(flag);
    count = up_to - count;
    sum = 0;
    ECQ_UNROLL
    for (std::uint32_t other = 0; other < own_words; ++other) {
      if (other == warp_number) count += sum;
      sum += own_[other];
    }
    return flagged;
  }

  static __device__ void set_bits(std::uint32_t* word, std::uint32_t bits) { atomicOr(word, bits); }

  static __device__ std::uint32_t misalignment(const std::byte* from) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from)) & 3U;
  }
  /// `table` is in shared memory.
  static __device__ void load_pair(const std::uint32_t* table, std::uint32_t index, std::uint32_t& even,
                                   std::uint32_t& odd) {
#if defined(ECQ_EMULATED_CUDA)
    const ::uint2 pair = reinterpret_cast<const ::uint2*>(table)[index];
#else
    // As a product and a sum, the address takes one instruction; the compiler would shift before it masks.
    auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(table));
    asm("mad.lo.u32 %0, %1, 8, %2;" : "=r"(address) : "r"(index), "r"(address));
    const ::uint2 pair = *static_cast<const ::uint2*>(__cvta_shared_to_generic(address));
#endif
    even = pair.x;
    odd = pair.y;
  }

  /// Returns `shared`, a pointer to shared memory, as an address that the compiler keeps in a register and does not
  /// compute again at every access.
  static __device__ const std::uint32_t* in_register(const std::uint32_t* shared) {
#if defined(ECQ_EMULATED_CUDA)
    return shared;
#else
    auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm("mov.u32 %0, %0;" : "+r"(address));
    return static_cast<const std::uint32_t*>(__cvta_shared_to_generic(address));
#endif
  }

  static __device__ std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return __funnelshift_r(low, high, bits);
  }
  static __device__ std::uint32_t funnel_left(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return __funnelshift_l(low, high, bits);
  }
  static __device__ std::uint32_t count_bits(std::uint32_t x) { return static_cast<std::uint32_t>(__popc(x)); }
  static __device__ std::uint32_t lowest_bit(std::uint32_t x) {
    return static_cast<std::uint32_t>(__ffs(static_cast<int>(x))) - 1U;
  }

 private:
  std::uint32_t* own_;
};
static_assert(gap_group<device_gap_group>);

}  // namespace ecq
