#pragma once
/// \file
/// The CUDA backend: `ecq::cuda{stream}`, and its errors.

#include <cuda_runtime.h>

#include <string>

#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/result.hpp"

namespace ecq {

/// Work goes to `stream` of the current device, in order, and returns before it is done. Nothing waits for the device
/// and nothing is allocated there unless a function says so.
struct cuda {
  cudaStream_t stream = nullptr;
};

template <>
inline constexpr bool is_backend<cuda> = true;

namespace detail {

/// What CUDA's verdict means: unsupported without a device or a kernel for it, out_of_memory, else device_error.
inline result<void> check_cuda(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return {};
  errc code = errc::device_error;
  switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice: code = errc::unsupported; break;
    case cudaErrorMemoryAllocation: code = errc::out_of_memory; break;
    default: break;
  }
  return error(code, std::string(doing) + ": " + cudaGetErrorString(status));
}

}  // namespace detail

}  // namespace ecq
