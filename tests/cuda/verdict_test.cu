#include "ecq/cuda/verdict.cuh"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "cuda/device_memory.cuh"

namespace {

class VerdictOnDevice : public ecq_test::device_test {};

TEST_F(VerdictOnDevice, DoesNotTakeWhatNobodyClearedForAVerdict) {
  const ecq_test::device_memory memory(8);
  const ecq::device_verdict verdict(memory.data());
  for (const int garbage : {0, 0xCB}) {
    ASSERT_EQ(cudaMemset(memory.data(), garbage, 8), cudaSuccess);
    const auto found = verdict.wait({});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), ecq::errc::invalid_argument);
  }
  ASSERT_TRUE(verdict.clear({}));
  EXPECT_TRUE(verdict.wait({}));
}

}  // namespace
