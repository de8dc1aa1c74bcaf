#pragma once
/// \file
/// Decoding streams in device memory into device memory.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/decode_kernel.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/result.hpp"

namespace ecq {

/// Where a device says what became of the chunks that it decoded: 8 bytes of device memory that the caller owns,
/// aligned to 8. Several calls may share one.
class device_verdict {
 public:
  explicit device_verdict(void* memory) : failed_chunk_(static_cast<unsigned long long*>(memory)) {}

  /// All is well so far; in order of gpu.stream.
  result<void> clear(const cuda& gpu) const {
    return detail::check_cuda(cudaMemsetAsync(failed_chunk_, 0xFF, sizeof *failed_chunk_, gpu.stream),
                              "clearing a verdict");
  }

  /// Waits for gpu.stream. errc::corrupt names the first chunk that does not decode; device_error.
  result<void> wait(const cuda& gpu) const {
    unsigned long long failed = 0;
    ECQ_CHECK(
        detail::check_cuda(cudaMemcpyAsync(&failed, failed_chunk_, sizeof failed, cudaMemcpyDeviceToHost, gpu.stream),
                           "reading a verdict"));
    ECQ_CHECK(detail::check_cuda(cudaStreamSynchronize(gpu.stream), "waiting for the device"));
    if (failed == ~0ULL) return {};
    return error(errc::corrupt, "stream: chunk " + std::to_string(failed) + " does not decode to its end");
  }

  unsigned long long* failed_chunk() const noexcept { return failed_chunk_; }

 private:
  unsigned long long* failed_chunk_;
};

namespace detail {

/// Warps of a block: enough to share a table, few enough that blocks come and go.
inline constexpr unsigned decode_warps = 8;

template <element_split Split>
cudaError_t launch_decode(const cuda& gpu, const device_stream& stream, const device_range& range, unsigned blocks) {
  constexpr unsigned threads = decode_warps * lane_count;
  const std::size_t shared = sizeof(std::uint32_t) * stream.entries;
  const auto by_coding = [&]<warp_coding Coding>() {
    decode_kernel<Split, Coding, decode_warps><<<blocks, threads, shared, gpu.stream>>>(stream.view, range);
    return cudaGetLastError();
  };
  switch (stream.coding.value_or(warp_coding::raw)) {
    case warp_coding::rans_alias: return by_coding.template operator()<warp_coding::rans_alias>();
    case warp_coding::rans_direct: return by_coding.template operator()<warp_coding::rans_direct>();
    case warp_coding::tans: return by_coding.template operator()<warp_coding::tans>();
    case warp_coding::huffman: return by_coding.template operator()<warp_coding::huffman>();
    default: break;
  }
  decode_any_kernel<Split, decode_warps><<<blocks, threads, 0, gpu.stream>>>(stream.view, range);
  return cudaGetLastError();
}

}  // namespace detail

/// As decode_elements on the CPU, for a stream in device memory: elements from `first` on, as many as `out`, in device
/// memory, holds, in order of gpu.stream. What is wrong with the stream's bytes `verdict` tells; chunk checksums are
/// not looked at. Whole groups of four elements are written at once where `out` is aligned to 16 bytes and begins at a
/// multiple of 4 elements, else byte by byte.
/// Errors: invalid_argument when the range leaves the stream or cuts an element, unsupported, device_error.
inline result<void> decode_elements(const cuda& gpu, const device_stream& stream, std::uint64_t first,
                                    std::span<std::byte> out, const device_verdict& verdict) {
  const std::size_t width = stream.format ? size_of(*stream.format) : 1;
  const std::uint64_t count = out.size() / width;
  const std::uint64_t size = stream.view.elements;
  if (first > size || count > size - first || out.size() % width != 0) {
    return error(errc::invalid_argument, "stream: elements " + std::to_string(first) + " + " +
                                             std::to_string(out.size()) + " bytes of " + std::to_string(size) +
                                             " with " + std::to_string(width) + " bytes each");
  }
  // A grid has fewer than 2^31 blocks.
  constexpr std::uint64_t most_chunks = std::uint64_t{detail::decode_warps} << 30;
  const unsigned bits = stream.view.chunk_bits;
  const std::uint64_t last = first + count;
  const std::uint64_t end = count == 0 ? 0 : ((last - 1) >> bits) + 1;
  for (std::uint64_t chunk = first >> bits; chunk < end; chunk += most_chunks) {
    const device_range range = {.first_chunk = chunk,
                                .chunks = (std::min)(end - chunk, most_chunks),
                                .first = first,
                                .last = last,
                                .out = out.data(),
                                .failed_chunk = verdict.failed_chunk()};
    const auto blocks = static_cast<unsigned>((range.chunks + detail::decode_warps - 1) / detail::decode_warps);
    const cudaError_t launched = visit_split(
        stream.format, [&]<class Split>() { return detail::launch_decode<Split>(gpu, stream, range, blocks); });
    ECQ_CHECK(detail::check_cuda(launched, "launching a decoder"));
  }
  return {};
}

}  // namespace ecq
