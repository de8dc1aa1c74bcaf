// Translation of CUDA's errors. Runs only on the emulated device, since compute-sanitizer takes a wrong call for a
// failure.
#include "ecq/cuda/backend.cuh"

#include <gtest/gtest.h>

#include <cstdint>

#include "cuda/device_memory.cuh"
#include "ecq/cuda/launch.cuh"

namespace {

using ecq::errc;

TEST(Backend, NamesWhatCudaSays) {
  const auto code_of = [](cudaError_t status) { return ecq::detail::check_cuda(status, "asking").error().code(); };
  EXPECT_TRUE(ecq::detail::check_cuda(cudaSuccess, "asking"));
  // Errors without a device, then errors of a device that no kernel was compiled for: CUDA's own text for its error 98
  // contains "or is not compiled for the proper device architecture".
  for (const auto status :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorInvalidDevice, cudaErrorInvalidDeviceFunction,
        cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion}) {
    EXPECT_EQ(code_of(status), errc::unsupported) << status;
  }
  EXPECT_EQ(code_of(cudaErrorMemoryAllocation), errc::out_of_memory);
  EXPECT_EQ(code_of(cudaErrorLaunchFailure), errc::device_error);
}

__global__ void nothing() {}

// Callers that look for the error of their own launch by cudaGetLastError must not find one that was already reported.
TEST(Backend, LeavesNoErrorBehind) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const auto got = ecq::detail::launch({}, "launching too many threads", &nothing, {1, 4096});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), errc::device_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
