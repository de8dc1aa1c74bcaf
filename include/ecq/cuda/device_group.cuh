#pragma once
/// \file
/// Groups of threads of a device (base/threads.hpp), of a warp or of a block. Mirrors base/host_group.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

namespace detail {

/// Returns a * b. It is in assembly so that the product is neither fused with a sum nor flushed to zero, whatever
/// options nvcc gets.
__device__ inline float exact_product(float a, float b) {
#if defined(ECQ_EMULATED_CUDA)
  return a * b;
#else
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
#endif
}

}  // namespace detail

/// The thread_memory of a device: memory accesses of one thread.
struct device_access {
  template <class Word>
  static __device__ Word load(const std::byte* from, std::uint32_t index = 0) {
    return reinterpret_cast<const Word*>(from)[index];
  }
  template <class Word>
  static __device__ void store(std::byte* to, Word word) {
    *reinterpret_cast<Word*>(to) = word;
  }
  static __device__ void load_16_bytes(const std::byte* from, std::uint32_t (&words)[4]) {
    const auto four = *reinterpret_cast<const ::uint4*>(from);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }
  static __device__ void store_16_bytes(std::byte* to, const std::uint32_t (&words)[4]) {
    *reinterpret_cast<::uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
  /// `from` is in global memory.
  static __device__ void prefetch([[maybe_unused]] const std::byte* from) {
#if !defined(ECQ_EMULATED_CUDA)
    asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(from)));
#endif
  }
  static __device__ void increment(std::uint32_t& counter) { atomicAdd(&counter, 1U); }
  static __device__ void add(std::uint64_t& sum, std::uint64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&sum), static_cast<unsigned long long>(value));
  }
};
static_assert(thread_memory<device_access>);

/// A group of `Threads` neighbouring lanes of a warp.
template <std::uint32_t Threads>
struct device_lanes {
  using memory = device_access;

  static_assert(Threads != 0 && lane_count % Threads == 0);

  static __device__ std::uint32_t rank() { return threadIdx.x % Threads; }
  static __host__ __device__ constexpr std::uint32_t size() { return Threads; }
  static __device__ void sync() { __syncwarp(mask()); }
  static __device__ std::uint64_t value_of(std::uint64_t value, std::uint32_t thread) {
    return __shfl_sync(mask(), value, static_cast<int>(thread), static_cast<int>(Threads));
  }
  static __device__ std::uint64_t value_behind(std::uint64_t value, std::uint32_t by) {
    return __shfl_down_sync(mask(), value, by, static_cast<int>(Threads));
  }
  static __device__ std::uint64_t sum(std::uint64_t value) {
    ECQ_UNROLL
    for (std::uint32_t with = Threads / 2; with != 0; with /= 2) {
      value += __shfl_xor_sync(mask(), value, static_cast<int>(with), static_cast<int>(Threads));
    }
    return value;
  }
  /// Returns the sum of the values of all ranks up to and including the thread's own.
  template <class Number>
  static __device__ Number inclusive_sum(Number value) {
    ECQ_UNROLL
    for (std::uint32_t by = 1; by < Threads; by *= 2) {
      const Number lower = __shfl_up_sync(mask(), value, by, static_cast<int>(Threads));
      if (rank() >= by) value += lower;
    }
    return value;
  }
  template <class Number>
  static __device__ Number exclusive_sum(Number value, Number& all) {
    const Number upto = inclusive_sum(value);
    all = __shfl_sync(mask(), upto, static_cast<int>(Threads - 1), static_cast<int>(Threads));
    return upto - value;
  }
  static __device__ std::uint32_t first_of_largest(std::uint64_t value, std::uint32_t number) {
    const auto high = static_cast<std::uint32_t>(value >> 32);
    const std::uint32_t most = __reduce_max_sync(mask(), high);
    const std::uint32_t low = high == most ? static_cast<std::uint32_t>(value) : 0U;
    const std::uint32_t most_low = __reduce_max_sync(mask(), low);
    return __reduce_min_sync(mask(), high == most && low == most_low ? number : ~0U);
  }

 private:
  static __device__ std::uint32_t mask() {
    if constexpr (Threads == lane_count) return ~0U;
    constexpr std::uint32_t group = (1U << (Threads % lane_count)) - 1U;
    return group << (threadIdx.x % lane_count / Threads * Threads);
  }
};
static_assert(shuffling_group<device_lanes<4>> && shuffling_group<device_lanes<lane_count>>);

/// A group of all threads of a block, which has one dimension and whole warps.
struct device_threads {
  using memory = device_access;

  std::uint64_t* sums = nullptr;  ///< 32 words of shared memory, for exclusive_sum

  static __device__ std::uint32_t rank() { return threadIdx.x; }
  static __device__ std::uint32_t size() { return blockDim.x; }
  static __device__ void sync() { __syncthreads(); }
  __device__ std::uint64_t exclusive_sum(std::uint64_t value, std::uint64_t& all) const {
    using warp = device_lanes<lane_count>;
    std::uint64_t of_warp = 0;
    const std::uint64_t before = warp::exclusive_sum(value, of_warp);
    const std::uint32_t number = threadIdx.x / lane_count;
    const std::uint32_t warps = blockDim.x / lane_count;
    __syncthreads();
    if (warp::rank() == 0) sums[number] = of_warp;
    __syncthreads();
    const std::uint64_t own = warp::rank() < warps ? sums[warp::rank()] : 0;
    return before + warp::value_of(warp::exclusive_sum(own, all), number);
  }
};
static_assert(summing_group<device_threads>);

/// The common part of the stepped groups of a device. A group consists of all `Threads` threads of a block: each thread
/// takes its own steps, and its own values are in registers.
template <unsigned Threads>
struct device_steps {
  using memory = device_access;

  template <class Value>
  using own = Value;

  static __host__ __device__ constexpr std::uint32_t size() { return Threads; }
  template <class Value>
  static __device__ Value& at(Value& value, std::uint32_t) {
    return value;
  }
  template <class Body>
  static __device__ void each_thread(Body&& body) {
    body(threadIdx.x);
  }
  static __device__ void sync() {
    if constexpr (Threads == lane_count) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};
static_assert(stepped_group<device_steps<lane_count>>);

}  // namespace ecq
