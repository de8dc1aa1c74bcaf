#pragma once
/// \file
/// A record of a device's errors, which the host reads when it waits anyway.

#include <cuda_runtime.h>

#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"

namespace ecq {

/// Outcome of work on a device, in 8 bytes of device memory that the caller owns, aligned to 8 bytes. Clear it before
/// the first call, and again after it has reported an error, which it keeps until then. Several calls may share a
/// verdict. Of the errors that they report, it keeps the first, ordered by kind as in errc and then by number.
class device_verdict {
 public:
  explicit device_verdict(void* memory) : memory_(static_cast<unsigned long long*>(memory)) {}

  /// Records, on gpu.stream, that there is no error.
  result<void> clear(const cuda& gpu) const {
    return detail::check_cuda(cudaMemsetAsync(memory_, 0xFF, sizeof *memory_, gpu.stream), "clearing a verdict");
  }

  /// Waits for gpu.stream and returns the outcome. Errors: the error that was reported, with its number; device_error;
  /// invalid_argument for a value that nothing reports, as in memory that was never cleared.
  result<void> wait(const cuda& gpu) const {
    unsigned long long reported = 0;
    ECQ_CHECK(detail::check_cuda(
        cudaMemcpyAsync(&reported, memory_, sizeof reported, cudaMemcpyDeviceToHost, gpu.stream), "reading a verdict"));
    ECQ_CHECK(detail::check_cuda(cudaStreamSynchronize(gpu.stream), "waiting for the device"));
    if (reported == ~0ULL) return {};
    if (reported >> 56 == 0 || reported >> 56 > static_cast<unsigned>(errc::device_error)) {
      return error(errc::invalid_argument, "the verdict was not cleared before use");
    }
    const auto kind = static_cast<errc>(reported >> 56);
    const unsigned long long number = reported & ((1ULL << 56) - 1);
    switch (kind) {
      case errc::limit_exceeded: return error(kind, "not enough room on the device: ", number, " bytes are needed");
      case errc::corrupt: return error(kind, "stream: chunk ", number, " does not decode to its end");
      case errc::non_finite: return error(kind, "weight ", number, ", counted row by row, is not finite");
      case errc::unreachable_target:
        return error(kind, number, " thousandths of a bit per weight are the least that these weights reach");
      default: return error(kind, "failed on the device, at ", number);
    }
  }

  unsigned long long* memory() const noexcept { return memory_; }

 private:
  unsigned long long* memory_;
};

namespace detail {

/// Records a failure of kind `code` at `number` (below 2^56). One thread calls it for each failure.
__device__ inline void report_failure(unsigned long long* verdict, errc code, std::uint64_t number) {
  atomicMin(verdict, (static_cast<unsigned long long>(code) << 56) | number);
}

}  // namespace detail

}  // namespace ecq
