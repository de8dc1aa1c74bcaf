#pragma once
/// \file
/// The CUDA backend, `ecq::cuda{stream}`, and its errors.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"

namespace ecq {

/// The CUDA backend. Calls enqueue work on `stream` of the current device, in order, and return before the work is
/// done. No function allocates device memory, and none waits for the device unless its documentation says so.
///
/// Calls that do not wait may be captured into a CUDA graph: device_verdict::clear, decode_elements, decompress,
/// encode_elements, quantize, lambda_for_bits and compress. Each launch of the graph works on the contents of device
/// memory at that time; arguments passed by value, such as sizes, places and options, keep the values they had at
/// capture. `open`, `fetch` and `wait` need an answer from the device at once, and `upload` copies host memory, so a
/// graph cannot contain any of these.
struct cuda {
  cudaStream_t stream = nullptr;
};

template <>
inline constexpr bool is_backend<cuda> = true;

namespace detail {

/// Turns a CUDA error into an error of the library: unsupported if there is no device or no kernel for it,
/// out_of_memory, otherwise device_error. Clears CUDA's last error, so that callers do not mistake it for an error of
/// their own launches.
inline result<void> check_cuda(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  errc code = errc::device_error;
  switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidDeviceFunction:  // when asking for a kernel's occupancy or setting its attributes
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorNoKernelImageForDevice: code = errc::unsupported; break;
    case cudaErrorMemoryAllocation: code = errc::out_of_memory; break;
    default: break;
  }
  return error(code, doing, ": ", cudaGetErrorString(status));
}

/// Returns errc::invalid_argument if `memory` is null or not aligned to `bytes`.
inline result<void> check_aligned(const void* memory, std::size_t bytes, const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (memory != nullptr && address % bytes == 0) return {};
  if (memory == nullptr) return error(errc::invalid_argument, what, " is a null pointer");
  return error(errc::invalid_argument, what, " is at address ", address, ", not aligned to ", bytes, " bytes");
}

/// Enqueues a copy of host memory on gpu.stream. The host memory must live until the copy is done.
inline result<void> copy_to_device(const cuda& gpu, void* to, std::span<const std::byte> from, const char* doing) {
  if (from.empty()) return {};
  return check_cuda(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, gpu.stream), doing);
}

/// Returns `offset` rounded up to a multiple of 256, where another array of device memory may begin.
constexpr std::uint64_t aligned_on_device(std::uint64_t offset) noexcept { return (offset + 255) / 256 * 256; }

}  // namespace detail

}  // namespace ecq
