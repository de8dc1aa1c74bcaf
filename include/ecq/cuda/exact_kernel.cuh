#pragma once
/// \file
/// The kernel that writes exact weights over decoded ones.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/nearest_finite.hpp"

namespace ecq {

namespace detail {

inline constexpr unsigned exact_threads = 128;

}  // namespace detail

/// Writes `count` exact weights to `out`, whose element 0 is at position `origin`.
template <class Output>
__global__ void __launch_bounds__(detail::exact_threads)
    exact_kernel(const exact_weight* weights, std::uint64_t count, std::uint64_t origin, Output* out) {
  const std::uint64_t index = std::uint64_t{blockIdx.x} * detail::exact_threads + threadIdx.x;
  if (index < count) out[weights[index].position - origin] = nearest_finite<Output>(weights[index].weight);
}

namespace detail {

/// Launches exact_kernel on gpu.stream. Errors: limit_exceeded for 2^37 and more weights, device_error.
template <class Output>
result<void> launch_exact(const cuda& gpu, const exact_weight* weights, std::uint64_t count, std::uint64_t origin,
                          Output* out) {
  if (count >= std::uint64_t{exact_threads} << 30U) {
    return error(errc::limit_exceeded, count, " exact weights are too many for one launch");
  }
  const auto blocks = static_cast<std::size_t>((count + exact_threads - 1) / exact_threads);
  return launch(gpu, "writing exact weights", exact_kernel<Output>, {.blocks = blocks, .threads = exact_threads},
                weights, count, origin, out);
}

}  // namespace detail
}  // namespace ecq
