#pragma once
/// \file
/// The block policy of quantize/row_block.hpp on a device. Mirrors tests/support/host_row_block.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/verdict.cuh"
#include "ecq/format/fp16.hpp"
#include "ecq/quantize/balanced_scale.hpp"

namespace ecq {

/// Shared memory of a block of `Threads` threads.
template <unsigned Threads>
struct row_block_memory {
  double distortion[Threads];
  double kept[Threads];
  std::uint32_t largest[Threads / 32];
  alignas(16) std::byte told[32];
};

/// All threads of the block, which are 32 or 256, call every function together.
template <unsigned Threads>
class device_row_block {
 public:
  static_assert(Threads == 32 || Threads == 256);
  static constexpr unsigned threads = Threads;

  template <class Value>
  using own = Value;

  __device__ device_row_block(row_block_memory<Threads>& memory, unsigned long long* verdict)
      : memory_(memory), verdict_(verdict) {}

  template <class Value>
  static __device__ Value& at(Value& value, std::uint32_t) {
    return value;
  }
  template <class Body>
  static __device__ void each_thread(Body&& body) {
    body(threadIdx.x);
  }

  __device__ void meet() const {
    if constexpr (Threads == 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  __device__ std::uint32_t largest(std::uint32_t value) const {
    value = __reduce_max_sync(0xFFFFFFFFU, value);
    if constexpr (Threads == 32) return value;
    memory_.largest[threadIdx.x / 32] = value;
    meet();
    for (const std::uint32_t other : memory_.largest) value = other > value ? other : value;
    meet();
    return value;
  }

  /// Thread 0 calls `body`.
  template <class Body>
  __device__ auto lead(Body&& body) const {
    using told = decltype(body());
    static_assert(sizeof(told) <= sizeof memory_.told);
    auto* const all = reinterpret_cast<told*>(memory_.told);
    meet();
    if (threadIdx.x == 0) *all = body();
    meet();
    return *all;
  }

  template <class Body>
  __device__ auto decide(detail::group_sums sums, Body&& body) const {
    if constexpr (Threads > 32) {
      memory_.distortion[threadIdx.x] = sums.distortion;
      memory_.kept[threadIdx.x] = sums.kept;
      meet();
      if (threadIdx.x < 32) {
        detail::group_sums of_lane[Threads / 32];
        ECQ_UNROLL
        for (unsigned i = 0; i < Threads / 32; ++i) {
          of_lane[i] = {memory_.distortion[32 * i + threadIdx.x], memory_.kept[32 * i + threadIdx.x]};
        }
        sums = fold_warp(detail::fold<Threads / 32>(of_lane));
      }
    } else {
      sums = fold_warp(sums);
    }
    return lead([&] { return body(sums); });
  }

  __device__ void report(errc code, std::uint64_t number) const { detail::report_failure(verdict_, code, number); }

  static __device__ void count(std::uint32_t& all, std::uint32_t some) { atomicAdd(&all, some); }
  static __device__ void count(std::uint64_t& all, std::uint64_t some) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&all), static_cast<unsigned long long>(some));
  }

  // Spelt out, a product is neither fused with a sum nor flushed to zero, and a quotient is exact, whatever nvcc is
  // told.
  static __device__ float multiply(float a, float b) {
#if defined(ECQ_EMULATED_CUDA)
    return a * b;
#else
    float product;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
    return product;
#endif
  }
  static __device__ double multiply(double a, double b) {
#if defined(ECQ_EMULATED_CUDA)
    return a * b;
#else
    double product;
    asm("mul.rn.f64 %0, %1, %2;" : "=d"(product) : "d"(a), "d"(b));
    return product;
#endif
  }
  static __device__ float divide(float a, float b) {
#if defined(ECQ_EMULATED_CUDA)
    return a / b;
#else
    float quotient;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
    return quotient;
#endif
  }
  static __device__ std::uint32_t bits_of_fp16(std::uint32_t code) {
#if defined(ECQ_EMULATED_CUDA)
    return __float_as_uint(fp16::decode(static_cast<std::uint16_t>(code)));
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<std::uint16_t>(code)));
    return __float_as_uint(value);
#endif
  }

  template <class Word>
  static __device__ Word load_one(const std::byte* from) {
    return *reinterpret_cast<const Word*>(from);
  }
  static __device__ void load_16_bytes(const std::byte* from, std::uint32_t (&words)[4]) {
    const ::uint4 all = *reinterpret_cast<const ::uint4*>(from);
    words[0] = all.x;
    words[1] = all.y;
    words[2] = all.z;
    words[3] = all.w;
  }
  static __device__ void load_four(const float* from, float (&four)[4]) {
    const ::float4 all = *reinterpret_cast<const ::float4*>(from);
    four[0] = all.x;
    four[1] = all.y;
    four[2] = all.z;
    four[3] = all.w;
  }
  static __device__ void store_16_bytes(std::uint8_t* to, const std::uint32_t (&words)[4]) {
    *reinterpret_cast<::uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }

 private:
  static __device__ detail::group_sums fold_warp(detail::group_sums sums) {
    ECQ_UNROLL
    for (int lane = 16; lane != 0; lane /= 2) {
      sums += {__shfl_xor_sync(0xFFFFFFFFU, sums.distortion, lane), __shfl_xor_sync(0xFFFFFFFFU, sums.kept, lane)};
    }
    return sums;
  }

  row_block_memory<Threads>& memory_;
  unsigned long long* verdict_;
};

}  // namespace ecq
