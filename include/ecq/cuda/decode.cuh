#pragma once
/// \file
/// Decoding of streams in device memory into device memory.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/decode_kernel.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/pair_warp.hpp"

namespace ecq {

namespace detail {

/// A chunk_user that writes elements first, first + 1, ..., last - 1 of a stream to `out`; `Pairs` is true for a stream
/// in pairs.
template <element_split Split, bool Pairs>
struct elements_to {
  static constexpr bool pairs = Pairs;
  static constexpr std::size_t shared_bytes = 0;
  static constexpr unsigned blocks = element_bits<Split> == 32 ? 3 : 4;

  std::uint64_t first;
  std::uint64_t last;
  std::byte* out;  ///< where element `first` goes

  __device__ void load(std::byte*) {}

  template <class Decode>
  __device__ errc operator()(const stream_chunk& chunk, Decode&& decode) const {
    const chunk_target target = target_in<device_warp>(chunk.begin, chunk.begin + chunk.elements, first, last, out,
                                                       element_bits<Split> / 8, Pairs ? 8 : 4);
    if constexpr (Pairs) {
      warp_pair_sink<device_warp, Split> sink(chunk.pairs, chunk.raw, target);
      const errc outcome = decode(sink);
      const errc split = sink.verdict();
      return outcome != errc::ok ? outcome : split;
    } else {
      return decode(warp_element_sink<device_warp, Split>{chunk.raw, chunk.raw_bits, target});
    }
  }
};

}  // namespace detail

/// Decodes elements of a stream in device memory, as decode_elements does on the CPU: elements from `first` on, as many
/// as `out`, in device memory, holds, in order of gpu.stream. `verdict` reports errors in the stream's bytes; chunk
/// checksums are not checked. Whole groups of four elements are written at once if `out` is aligned to 16 bytes and
/// `first` is a multiple of 4 (of 8 for a stream in pairs), else byte by byte.
/// Errors: invalid_argument if the range leaves the stream or cuts an element, and if the stream lies on another device
/// than the current one; unsupported, device_error.
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
  if (count == 0) return {};
  const unsigned bits = stream.view.chunk_bits;
  const std::uint64_t last = first + count;
  const chunk_range chunks = {first >> bits, ((last - 1) >> bits) + 1};
  return visit_split(stream.format, [&]<class Split>() {
    if (stream.view.pairs != 0) {
      return detail::launch_decode(gpu, stream, chunks, detail::elements_to<Split, true>{first, last, out.data()},
                                   verdict);
    }
    return detail::launch_decode(gpu, stream, chunks, detail::elements_to<Split, false>{first, last, out.data()},
                                 verdict);
  });
}

}  // namespace ecq
