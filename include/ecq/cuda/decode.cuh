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
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/result.hpp"

namespace ecq {

namespace detail {

/// Warps of a block: enough to share a table, few enough that blocks come and go.
inline constexpr unsigned decode_warps = 8;

template <element_split Split>
result<void> launch_decode(const cuda& gpu, const device_stream& stream, const device_range& range,
                           std::size_t blocks) {
  const launch_shape shape = {blocks, decode_warps * lane_count, sizeof(std::uint32_t) * stream.entries};
  const auto by_coding = [&]<warp_coding Coding>() {
    return launch(gpu, "launching a decoder", &decode_kernel<Split, Coding, decode_warps>, shape, stream.view, range);
  };
  switch (stream.coding.value_or(warp_coding::raw)) {
    case warp_coding::rans_alias: return by_coding.template operator()<warp_coding::rans_alias>();
    case warp_coding::rans_direct: return by_coding.template operator()<warp_coding::rans_direct>();
    case warp_coding::tans: return by_coding.template operator()<warp_coding::tans>();
    case warp_coding::huffman: return by_coding.template operator()<warp_coding::huffman>();
    default: break;
  }
  return launch(gpu, "launching a decoder", &decode_any_kernel<Split, decode_warps>, {blocks, shape.threads},
                stream.view, range);
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
                                .verdict = verdict.memory()};
    const std::size_t blocks = (range.chunks + detail::decode_warps - 1) / detail::decode_warps;
    ECQ_CHECK(visit_split(stream.format,
                          [&]<class Split>() { return detail::launch_decode<Split>(gpu, stream, range, blocks); }));
  }
  return {};
}

}  // namespace ecq
