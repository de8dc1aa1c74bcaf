// Errors of CUDA's, and launches.

#include "ecq/cuda/backend.cuh"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "cuda/device_memory.cuh"
#include "ecq/cuda/launch.cuh"

namespace {

using ecq::errc;

TEST(backend, names_errors_of_cuda) {
  const auto code_of = [](cudaError_t status) { return ecq::detail::check_cuda(status, "trying").error().code(); };
  EXPECT_TRUE(ecq::detail::check_cuda(cudaSuccess, "trying"));
  for (const cudaError_t status :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorInvalidDevice, cudaErrorInvalidDeviceFunction,
        cudaErrorUnsupportedPtxVersion, cudaErrorNoKernelImageForDevice}) {
    EXPECT_EQ(code_of(status), errc::unsupported) << status;
  }
  EXPECT_EQ(code_of(cudaErrorMemoryAllocation), errc::out_of_memory);
  EXPECT_EQ(code_of(cudaErrorInvalidConfiguration), errc::device_error);
}

}  // namespace
