#pragma once
/// \file
/// Where a device says what went wrong, for the host to ask when it waits anyway.

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"

namespace ecq {

/// What became of work on a device: 8 bytes of device memory that the caller owns, aligned to 8. To be cleared before
/// the first call, and again once it has told of something, which it keeps. Several calls may share one; of what they
/// report the first counts: by kind as errc orders them, then by number.
class device_verdict {
 public:
  explicit device_verdict(void* memory) : memory_(static_cast<unsigned long long*>(memory)) {}

  /// All is well so far; in order of gpu.stream.
  result<void> clear(const cuda& gpu) const {
    return detail::check_cuda(cudaMemsetAsync(memory_, 0xFF, sizeof *memory_, gpu.stream), "clearing a verdict");
  }

  /// Waits for gpu.stream. Errors: what was reported, with its number; device_error; invalid_argument where it finds
  /// what nothing reports, as in memory that was never cleared.
  result<void> wait(const cuda& gpu) const {
    unsigned long long reported = 0;
    ECQ_CHECK(detail::check_cuda(
        cudaMemcpyAsync(&reported, memory_, sizeof reported, cudaMemcpyDeviceToHost, gpu.stream), "reading a verdict"));
    ECQ_CHECK(detail::check_cuda(cudaStreamSynchronize(gpu.stream), "waiting for the device"));
    if (reported == ~0ULL) return {};
    if (reported >> 56 == 0 || reported >> 56 > static_cast<unsigned>(errc::device_error)) {
      return error(errc::invalid_argument, "a verdict that was not cleared before");
    }
    const auto kind = static_cast<errc>(reported >> 56);
    const std::string number = std::to_string(reported & ((1ULL << 56) - 1));
    switch (kind) {
      case errc::limit_exceeded: return error(kind, "no room on the device: " + number + " bytes are needed");
      case errc::corrupt: return error(kind, "stream: chunk " + number + " does not decode to its end");
      case errc::non_finite: return error(kind, "weight " + number + ", row by row, is not finite");
      case errc::unreachable_target:
        return error(kind, number + " thousandths of a bit a weight are the least that these weights reach");
      default: return error(kind, "on the device, at " + number);
    }
  }

  unsigned long long* memory() const noexcept { return memory_; }

 private:
  unsigned long long* memory_;
};

namespace detail {

/// Puts a failure of kind `code` at `number` (below 2^56) on record. To be called by one thread.
__device__ inline void report_failure(unsigned long long* verdict, errc code, std::uint64_t number) {
  atomicMin(verdict, (static_cast<unsigned long long>(code) << 56) | number);
}

}  // namespace detail

}  // namespace ecq
