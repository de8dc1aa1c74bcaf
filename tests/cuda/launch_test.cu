#include "ecq/cuda/launch.cuh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/device_memory.cuh"

namespace {

using ecq::detail::allow_shared;
using ecq::detail::launch_shape;
using ecq_test::device_memory;

class LaunchOnDevice : public ecq_test::device_test {};

__global__ void write_last_word(std::uint32_t* out, std::uint32_t words) {
  auto* const shared = ecq::detail::dynamic_shared<std::uint32_t>();
  shared[words - 1] = words;
  *out = shared[words - 1];
}

// Threads of the host may launch a kernel with different amounts of shared memory at the same time.
TEST_F(LaunchOnDevice, TakesNoSharedMemoryFromOtherLaunches) {
  const device_memory out(sizeof(std::uint32_t));
  const launch_shape large = {1, 1, 90000};
  const launch_shape small = {1, 1, 60000};
  ASSERT_TRUE(allow_shared("testing", &write_last_word, large));
  ASSERT_TRUE(allow_shared("testing", &write_last_word, small));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.dynamicSmemBytes = large.shared;
  const auto words = static_cast<std::uint32_t>(large.shared / sizeof(std::uint32_t));
  ASSERT_EQ(cudaLaunchKernelEx(&config, &write_last_word, reinterpret_cast<std::uint32_t*>(out.data()), words),
            cudaSuccess);
  std::uint32_t written = 0;
  std::memcpy(&written, out.read().data(), sizeof written);
  EXPECT_EQ(written, words);
}

}  // namespace
