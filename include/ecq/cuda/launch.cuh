#pragma once
/// \file
/// Launching of kernels. All launches of the library go through launch().

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"

namespace ecq::detail {

/// Bytes of shared memory that a block may have without requesting them.
inline constexpr std::size_t plain_shared_bytes = std::size_t{48} << 10;

/// Bytes of shared memory that a block gets on request from every device of compute capability 8.0 and later: those of
/// 8.6, 8.9 and 12.0 have the least.
inline constexpr std::size_t least_shared_bytes = std::size_t{99} << 10;

/// Number of blocks (less than 2^31; 0 launches nothing), threads per block, and bytes of dynamic shared memory per
/// block.
struct launch_shape {
  std::size_t blocks;
  unsigned threads;
  std::size_t shared = 0;
};

/// Returns the value of an attribute of the current device.
inline result<std::uint64_t> device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  ECQ_CHECK(check_cuda(cudaGetDevice(&device), "querying the current device"));
  ECQ_CHECK(check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "querying device attributes"));
  return static_cast<std::uint64_t>(value);
}

/// Allows `kernel`, which must have only dynamic shared memory, to use the shared memory of `shape`. The limit belongs
/// to the kernel, and another host thread may be about to launch it with more shared memory, so the limit becomes the
/// most that the device gives a block.
template <class... Parameters>
result<void> allow_shared(const char* doing, void (*kernel)(Parameters...), const launch_shape& shape) {
  if (shape.shared <= plain_shared_bytes) return {};
  ECQ_TRY(most, device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  return check_cuda(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>((std::max)(most, std::uint64_t{shape.shared}))),
      doing);
}

/// Returns the number of blocks of `shape` that a multiprocessor of the current device holds at once; ignores
/// shape.blocks.
template <class... Parameters>
result<unsigned> resident_blocks(const char* doing, void (*kernel)(Parameters...), const launch_shape& shape) {
  ECQ_CHECK(allow_shared(doing, kernel, shape));
  int blocks = 0;
  ECQ_CHECK(check_cuda(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(shape.threads), shape.shared),
      doing));
  return static_cast<unsigned>(blocks);
}

/// Launches `kernel` on gpu.stream. `doing` is part of the error message. Errors: unsupported, out_of_memory,
/// device_error.
template <class... Parameters, class... Arguments>
result<void> launch(const cuda& gpu, const char* doing, void (*kernel)(Parameters...), const launch_shape& shape,
                    const Arguments&... arguments) {
  if (shape.blocks == 0) return {};
  ECQ_CHECK(allow_shared(doing, kernel, shape));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared;
  config.stream = gpu.stream;
  return check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), doing);
}

/// Returns the dynamic shared memory of this block, aligned to 16 bytes.
template <class Type>
__device__ Type* dynamic_shared() {
#if defined(ECQ_EMULATED_CUDA)
  return static_cast<Type*>(emulated_shared_memory());
#else
  extern __shared__ ::uint4 ecq_dynamic_shared[];
  return reinterpret_cast<Type*>(ecq_dynamic_shared);
#endif
}

}  // namespace ecq::detail
