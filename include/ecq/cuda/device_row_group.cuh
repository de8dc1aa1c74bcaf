#pragma once
/// \file
/// The row_group of a device. Mirrors tests/support/host_row_group.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/device_group.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/format/fp16.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/row_group.hpp"

namespace ecq {

/// Shared memory that the row_group of a block of `Threads` threads uses.
template <unsigned Threads>
struct row_group_memory {
  double distortion[Threads];
  double kept[Threads];
  std::uint32_t largest[Threads / 32];
  alignas(16) std::byte told[32];
};

/// A group of all threads of a block, 32 or 256, which call every function together.
template <unsigned Threads>
class device_row_group : public device_steps<Threads> {
 public:
  static_assert(Threads == 32 || Threads == 256);
  using device_steps<Threads>::sync;

  __device__ device_row_group(row_group_memory<Threads>& shared, unsigned long long* verdict)
      : memory_(shared), verdict_(verdict) {}

  __device__ std::uint32_t largest(std::uint32_t value) const {
    value = __reduce_max_sync(0xFFFFFFFFU, value);
    if constexpr (Threads == 32) return value;
    memory_.largest[threadIdx.x / 32] = value;
    sync();
    for (const std::uint32_t other : memory_.largest) value = other > value ? other : value;
    sync();
    return value;
  }

  // The host pass of a compilation sees no bodies of device functions, so their return types have to be declared.

  /// Calls `body` in thread 0 and returns its result to all threads.
  template <class Body>
  __device__ auto lead(Body&& body) const -> decltype(body()) {
    using told = decltype(body());
    static_assert(sizeof(told) <= sizeof memory_.told);
    auto* const all = reinterpret_cast<told*>(memory_.told);
    sync();
    if (threadIdx.x == 0) *all = body();
    sync();
    return *all;
  }

  template <class Body>
  __device__ auto decide(detail::group_sums sums, Body&& body) const -> decltype(body(sums)) {
    if constexpr (Threads > 32) {
      memory_.distortion[threadIdx.x] = sums.distortion;
      memory_.kept[threadIdx.x] = sums.kept;
      sync();
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

  // In assembly, like exact_product(), so that nvcc's options do not change products and quotients.
  static __device__ float multiply(float a, float b) { return detail::exact_product(a, b); }
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

  static __device__ void load_four(const float* from, float (&four)[4]) {
    const ::float4 all = *reinterpret_cast<const ::float4*>(from);
    four[0] = all.x;
    four[1] = all.y;
    four[2] = all.z;
    four[3] = all.w;
  }

 private:
  static __device__ detail::group_sums fold_warp(detail::group_sums sums) {
    ECQ_UNROLL
    for (int lane = 16; lane != 0; lane /= 2) {
      sums += {__shfl_xor_sync(0xFFFFFFFFU, sums.distortion, lane), __shfl_xor_sync(0xFFFFFFFFU, sums.kept, lane)};
    }
    return sums;
  }

  row_group_memory<Threads>& memory_;
  unsigned long long* verdict_;
};
static_assert(row_group<device_row_group<32>> && row_group<device_row_group<256>>);

}  // namespace ecq
