// The emulated device itself: its operations, and the errors that it finds.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/cuda/launch.cuh"

namespace {

using ecq::detail::launch;

constexpr unsigned all_lanes = ~0U;

class EmulatedDevice : public ecq_test::device_test {
 protected:
  /// Returns words of the device after `kernel` has run.
  template <class... Parameters, class... Arguments>
  std::vector<std::uint32_t> words_after(std::size_t words, void (*kernel)(std::uint32_t*, Parameters...),
                                         ecq::detail::launch_shape shape, Arguments... arguments) {
    const ecq_test::device_memory memory(4 * words);
    EXPECT_TRUE(launch({}, "testing", kernel, shape, reinterpret_cast<std::uint32_t*>(memory.data()), arguments...));
    const auto bytes = memory.read();
    std::vector<std::uint32_t> read(words);
    std::memcpy(read.data(), bytes.data(), bytes.size());
    return read;
  }

  /// Returns the message for a kernel that cannot end; the device is usable again afterwards.
  std::string failure_of(void (*kernel)(), unsigned threads) {
    EXPECT_TRUE(launch({}, "testing", kernel, {3, threads}));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    const std::string told = cudaGetErrorString(cudaErrorLaunchFailure);
    EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
    return told;
  }
};

/// Passes the threads' numbers round, over and over, through shared memory.
__global__ void pass_round(std::uint32_t* out, std::uint32_t times) {
  __shared__ std::uint32_t own[2][256];
  std::uint32_t value = threadIdx.x;
  for (std::uint32_t i = 0; i < times; ++i) {
    own[i % 2][threadIdx.x] = value;
    __syncthreads();
    value = own[i % 2][(threadIdx.x + 1) % blockDim.x];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

TEST_F(EmulatedDevice, HoldsAllThreadsAtABarrier) {
  const auto got = words_after(5 * 160, &pass_round, {5, 160}, 300U);
  for (std::uint32_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], (i % 160 + 300) % 160);
}

/// Computes a prefix sum of the lanes' squares, and applies the other operations to lane numbers.
__global__ void use_every_operation(std::uint32_t* out) {
  const unsigned lane = threadIdx.x % 32;
  std::uint32_t sum = lane * lane;
  for (unsigned by = 1; by < 32; by *= 2) {
    const std::uint32_t lower = __shfl_up_sync(all_lanes, sum, by);
    if (lane >= by) sum += lower;
  }
  std::uint32_t* const own = out + 16 * threadIdx.x;
  own[0] = sum;
  own[1] = __ballot_sync(all_lanes, lane % 3 == 0);
  own[2] = __shfl_xor_sync(all_lanes, lane, 5);
  own[3] = __shfl_sync(all_lanes, lane, static_cast<int>(lane) + 9);
  own[5] = __reduce_add_sync(all_lanes, lane);
  own[6] = static_cast<std::uint32_t>(__reduce_min_sync(all_lanes, 5 - static_cast<int>(lane)));
  own[7] = __reduce_max_sync(all_lanes, lane ^ 5U);
  own[8] = static_cast<std::uint32_t>(__any_sync(all_lanes, lane == 7) + 2 * __all_sync(all_lanes, lane != 7));
  // The halves of a warp diverge.
  const unsigned half = lane < 16 ? 0xFFFFU : 0xFFFF0000U;
  if (lane < 16) {
    own[9] = __reduce_add_sync(half, lane);
  } else {
    own[9] = __ballot_sync(half, lane % 2 == 0);
  }
  own[10] = static_cast<std::uint32_t>(__syncthreads_count(threadIdx.x % 5 == 0));
  own[11] = static_cast<std::uint32_t>(__syncthreads_or(threadIdx.x == 40));
  const double wide = __shfl_sync(all_lanes, 0.5 * lane, 31);
  own[13] = static_cast<std::uint32_t>(2 * wide);
}

TEST_F(EmulatedDevice, ComputesWhatLanesDoTogether) {
  const auto got = words_after(16 * 64, &use_every_operation, {1, 64});
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t lane = i % 32;
    const std::uint32_t* const own = got.data() + 16 * i;
    ASSERT_EQ(own[0], lane * (lane + 1) * (2 * lane + 1) / 6);
    ASSERT_EQ(own[1], 0x49249249U);
    ASSERT_EQ(own[2], lane ^ 5U);
    ASSERT_EQ(own[3], (lane + 9) % 32);
    ASSERT_EQ(own[5], 496U);
    ASSERT_EQ(own[6], static_cast<std::uint32_t>(-26));
    ASSERT_EQ(own[7], 31U);
    ASSERT_EQ(own[8], 1U);
    ASSERT_EQ(own[9], lane < 16 ? 120U : 0x55550000U);
    ASSERT_EQ(own[10], 13U);
    ASSERT_EQ(own[11], 1U);
    ASSERT_EQ(own[13], 31U);
  }
}

/// Half of the threads leave; the others meet nevertheless.
__global__ void leave_early(std::uint32_t* out) {
  if (threadIdx.x % 2 == 0) return;
  __syncthreads();
  out[threadIdx.x] = __ballot_sync(all_lanes, 1);
}

TEST_F(EmulatedDevice, DoesNotWaitForThreadsThatHaveLeft) {
  const auto got = words_after(64, &leave_early, {1, 64});
  for (std::uint32_t i = 0; i < 64; ++i) ASSERT_EQ(got[i], i % 2 == 0 ? 0x5A5A5A5AU : 0xAAAAAAAAU);
}

__global__ void number_blocks(std::uint32_t* next) {
  if (threadIdx.x == 0) next[1 + atomicAdd(next, 1U) - 0x5A5A5A5AU] = blockIdx.x;
}

TEST_F(EmulatedDevice, RunsEveryBlockOnceInNoParticularOrder) {
  auto order = words_after(101, &number_blocks, {100, 32});
  order.erase(order.begin());
  std::vector<std::uint32_t> sorted(100);
  for (std::uint32_t i = 0; i < 100; ++i) sorted[i] = i;
  EXPECT_NE(order, sorted);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, sorted);
}

__global__ void wait_for_different_things() {
  if (threadIdx.x % 32 < 7) {
    __ballot_sync(all_lanes, 1);
  } else {
    __reduce_add_sync(all_lanes, 1U);
  }
}
__global__ void wait_with_different_masks() { __ballot_sync(threadIdx.x % 32 == 3 ? 0xFFU : all_lanes, 1); }
__global__ void call_from_outside_of_a_mask() { __ballot_sync(0xFFU, 1); }
__global__ void wait_in_a_barrier_and_in_a_warp() {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
__global__ void wait_at_different_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads_or(1);
  }
}

TEST_F(EmulatedDevice, ReportsThreadsThatWaitForEachOther) {
  using testing::internal::RE;
  const auto tells = [](const std::string& text, const char* pattern) {
    EXPECT_TRUE(RE::PartialMatch(text, pattern)) << text;
  };
  tells(failure_of(&wait_for_different_things, 64), "for each other.*__ballot_sync, line .*__reduce_add_sync, line ");
  tells(failure_of(&wait_with_different_masks, 64), "for each other.*mask 4294967295.*mask 255");
  tells(failure_of(&call_from_outside_of_a_mask, 64), "not in its own mask.*__ballot_sync");
  tells(failure_of(&wait_in_a_barrier_and_in_a_warp, 32), "for each other.*__syncwarp.*__syncthreads");
  tells(failure_of(&wait_at_different_barriers, 64), "different barriers.*__syncthreads.*__syncthreads_or");
}

__global__ void fill_dynamic(std::uint32_t* out, std::uint32_t words) {
  auto* const shared = ecq::detail::dynamic_shared<std::uint32_t>();
  const bool fresh = shared[threadIdx.x] == 0xCBCBCBCBU;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = fresh ? shared[words - 1] : 0;
}

TEST_F(EmulatedDevice, GivesEachBlockFreshDynamicMemoryAsLaunched) {
  for (const unsigned words : {64U, 20000U}) {
    const auto got = words_after(3, &fill_dynamic, {3, 64, 4 * std::size_t{words}}, words);
    EXPECT_EQ(got, (std::vector<std::uint32_t>(3, words - 1)));
  }
  const ecq_test::device_memory memory(4);
  const auto too_much =
      launch({}, "testing", &fill_dynamic, {1, 64, 300000}, reinterpret_cast<std::uint32_t*>(memory.data()), 1U);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code(), ecq::errc::device_error);
}

TEST_F(EmulatedDevice, DoesNothingBeforeSomebodyWaits) {
  const ecq_test::device_memory memory(4);
  std::uint32_t value = 1;
  ASSERT_EQ(cudaMemcpyAsync(memory.data(), &value, 4, cudaMemcpyHostToDevice), cudaSuccess);
  value = 2;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  value = 0;
  ASSERT_EQ(cudaMemcpy(&value, memory.data(), 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 2U);
}

TEST_F(EmulatedDevice, RefusesWhatAGraphCannotHold) {
  const ecq_test::device_memory memory(4);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  /// Returns the result of `call` while `stream` is captured; if that is an error, the graph is lost.
  const auto captured = [&](auto&& call) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const cudaError_t told = call();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), told == cudaSuccess ? told : cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph == nullptr, told != cudaSuccess);
    delete graph;
    static_cast<void>(cudaGetLastError());
    return told;
  };
  void* place = nullptr;
  std::uint32_t word = 0;
  EXPECT_EQ(captured([&] { return cudaMemsetAsync(memory.data(), 0, 4, stream); }), cudaSuccess);
  EXPECT_EQ(captured([&] { return cudaMemsetAsync(memory.data(), 0, 4); }), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(captured([&] { return cudaMemcpyAsync(&word, memory.data(), 4, cudaMemcpyDeviceToHost, stream); }),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(captured([&] { return cudaStreamSynchronize(stream); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(captured([&] { return cudaMalloc(&place, 4); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(captured([&] { return cudaFree(memory.data()); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
  static_cast<void>(cudaGetLastError());
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(EmulatedDevice, CopiesNoMoreThanIsThere) {
  const ecq_test::device_memory memory(300);
  std::byte host[2000];
  EXPECT_EQ(cudaMemcpyAsync(memory.data(), host, 2000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, host, 20, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 20), cudaErrorInvalidValue);
  void* none = nullptr;
  EXPECT_EQ(cudaMalloc(&none, std::size_t{1} << 40), cudaErrorMemoryAllocation);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

using EmulatedDeviceDeathTest = EmulatedDevice;

__global__ void write_word(std::uint32_t* out, std::ptrdiff_t at) { out[at] = 1; }

TEST_F(EmulatedDeviceDeathTest, KeepsTheHostOutOfDeviceMemory) {
  const ecq_test::device_memory memory(64);
  EXPECT_DEATH(*memory.data() = std::byte{1}, "");
}

TEST_F(EmulatedDeviceDeathTest, FindsWhatIsWrittenBesideDeviceMemory) {
  for (const std::ptrdiff_t at : {-1, 25}) {
    const auto spoil = [&] {
      void* memory = nullptr;
      cudaMalloc(&memory, 100);
      const auto launched = launch({}, "testing", &write_word, {1, 32}, static_cast<std::uint32_t*>(memory), at);
      cudaFree(memory);
      return launched.has_value();
    };
#if defined(ECQ_EMULATED_ASAN)
    EXPECT_DEATH(spoil(), "use-after-poison");
#else
    EXPECT_DEATH(spoil(), "beside device memory");
#endif
  }
}

#if defined(__x86_64__) && __has_builtin(__builtin_clear_padding)
TEST_F(EmulatedDeviceDeathTest, FindsParametersThatPointToTheHost) {
  std::vector<std::uint32_t> words(10);
  EXPECT_DEATH(static_cast<void>(launch({}, "testing", &write_word, {1, 1}, words.data(), 0)), "the host's memory");
}
#endif

#if defined(ECQ_EMULATED_ASAN)
__global__ void read_beyond_shared(std::uint32_t* out) {
  out[threadIdx.x] = ecq::detail::dynamic_shared<std::uint32_t>()[threadIdx.x + 1];
}
__global__ void read_beyond_the_stack(std::uint32_t* out) {
  volatile std::uint32_t own[4] = {};
  __syncthreads();
  volatile std::uint32_t* const first = own;
  *out = first[blockDim.x];
}

TEST_F(EmulatedDeviceDeathTest, FindsReadsBeyondSharedMemoryAndStacks) {
  const ecq_test::device_memory memory(128);
  auto* const out = reinterpret_cast<std::uint32_t*>(memory.data());
  const auto run = [&](void (*kernel)(std::uint32_t*), ecq::detail::launch_shape shape) {
    const auto launched = launch({}, "testing", kernel, shape, out);
    return launched && cudaDeviceSynchronize() == cudaSuccess;
  };
  EXPECT_DEATH(run(&read_beyond_shared, {1, 32, 128}), "use-after-poison");
  EXPECT_DEATH(run(&read_beyond_the_stack, {1, 4}), "stack-buffer-overflow");
}
#endif

}  // namespace
