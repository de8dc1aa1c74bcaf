#pragma once
// Device memory for tests.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ecq_test {

/// Whether the device is the emulated one of tests/cuda/emulated, on which loops take fewer turns.
#if defined(ECQ_EMULATED_CUDA)
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif

/// Bytes on the device between two canaries of 256 bytes each. There are no canaries if the emulated device itself
/// finds all accesses out of bounds.
class device_memory {
 public:
  explicit device_memory(std::size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&memory_, size + 2 * canary), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, pattern, size + 2 * canary), cudaSuccess);
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { cudaFree(memory_); }

  std::byte* data() const { return static_cast<std::byte*>(memory_) + canary; }
  std::size_t size() const { return size_; }

  /// Returns the bytes; the canaries must be unchanged.
  std::vector<std::byte> read() const {
    std::vector<std::byte> all(size_ + 2 * canary);
    EXPECT_EQ(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = 0; i < canary; ++i) {
      EXPECT_EQ(all[i], std::byte{pattern}) << canary - i << " bytes before the beginning";
      EXPECT_EQ(all[canary + size_ + i], std::byte{pattern}) << i << " bytes behind the end";
    }
    return {all.begin() + std::ptrdiff_t{canary}, all.end() - std::ptrdiff_t{canary}};
  }

 private:
#if defined(ECQ_EMULATED_ASAN)
  static constexpr std::size_t canary = 0;
#else
  static constexpr std::size_t canary = 256;
#endif
  static constexpr int pattern = 0x5A;

  void* memory_ = nullptr;
  std::size_t size_;
};

/// Base of tests that are skipped, with a message, if there is no device.
class device_test : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  }
  /// Whatever a test fed to a kernel, the device must be usable afterwards.
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
};

}  // namespace ecq_test
