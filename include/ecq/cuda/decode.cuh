#pragma once
/// \file
/// Decoding of streams in device memory into device memory.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

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
  static constexpr unsigned blocks(std::optional<warp_coding> coding) {
    if (!coding) return 2;
    if (element_bits<Split> == 32) return 3;
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
    return 4;
#else
    // With more blocks, the compiler would spill.
    const bool short_step = coding != warp_coding::rans_alias && coding != warp_coding::rans_wide;
    return Pairs || (std::is_same_v<Split, byte_split> && short_step) ? 6 : 5;
#endif
  }

  std::uint64_t first;
  std::uint64_t last;
  std::byte* out;  ///< place of element `first`

  __device__ void load(std::byte*) {}

  template <class Decode>
  __device__ errc operator()(const stream_chunk& chunk, Decode&& decode) const {
    const chunk_target target = target_in<device_warp>(chunk.begin, chunk.begin + chunk.elements, first, last, out,
                                                       element_bits<Split> / 8, Pairs ? 8 : 4);
    if constexpr (Pairs) {
      warp_pair_sink<device_warp, Split> sink(chunk.pairs, chunk.raw, target, chunk.walk);
      const errc outcome = decode(sink);
      const errc split = sink.verdict();
      return outcome != errc::ok ? outcome : split;
    } else {
      return decode(warp_element_sink<device_warp, Split>{chunk.raw, chunk.raw_bits, target, chunk.walk});
    }
  }
};

/// Returns the chunks that hold elements first, ..., last - 1 of a stream; precondition: first < last.
inline chunk_range chunks_of(const warp_stream& stream, std::uint64_t first, std::uint64_t last) {
  return {first >> stream.chunk_bits, ((last - 1) >> stream.chunk_bits) + 1};
}

/// Implements decode_elements() for streams whose elements `Split` splits.
template <element_split Split, coder_names Coders>
result<void> decode_elements_of(const cuda& gpu, const device_stream& stream, std::uint64_t first,
                                std::span<std::byte> out, const device_verdict& verdict) {
  constexpr std::size_t width = sizeof(typename Split::element);
  const std::uint64_t count = out.size() / width;
  const std::uint64_t size = stream.view.elements;
  if (first > size || count > size - first || out.size() % width != 0) {
    return error(errc::invalid_argument, "stream: elements ", first, " + ", out.size(), " bytes do not fit ", size,
                 " elements of ", width, " bytes each");
  }
  if (count == 0) return {};
  const std::uint64_t last = first + count;
  const chunk_range chunks = chunks_of(stream.view, first, last);
  if (stream.view.pairs != 0) {
    return launch_decode<Coders>(gpu, stream, chunks, elements_to<Split, true>{first, last, out.data()}, verdict);
  }
  return launch_decode<Coders>(gpu, stream, chunks, elements_to<Split, false>{first, last, out.data()}, verdict);
}

}  // namespace detail

/// Decodes elements of a stream in device memory on gpu.stream, as decode_elements does on the CPU: from element
/// `first` on, as many as fit in `out`, which is device memory. `verdict` reports errors in the stream's bytes; chunk
/// checksums are not checked. Whole groups of four elements are written at once if `out` is aligned to 16 bytes and
/// `first` is a multiple of 4 (of 8 for a stream in pairs), else byte by byte. Errors: invalid_argument if the range
/// leaves the stream or cuts an element, and if the stream lies on another device than the current one; unsupported,
/// device_error.
///
/// A program that names coders, with ecq::coders<ecq::rans> as the last argument, compiles kernels for these coders
/// only. Streams of other coders, except raw, are then unsupported.
template <coder_names Coders = every_coder>
result<void> decode_elements(const cuda& gpu, const device_stream& stream, std::uint64_t first,
                             std::span<std::byte> out, const device_verdict& verdict, Coders = {}) {
  return visit_split(stream.format, [&]<class Split>() {
    return detail::decode_elements_of<Split, Coders>(gpu, stream, first, out, verdict);
  });
}

}  // namespace ecq

/// \def ECQ_INSTANCE_OF_DEVICE_DECODING
/// The instance of decode_elements in ecq::compiled_cuda, for streams of every coder.
#define ECQ_INSTANCE_OF_DEVICE_DECODING(TEMPLATE)                                                             \
  TEMPLATE ecq::result<void> ecq::decode_elements(const ecq::cuda&, const ecq::device_stream&, std::uint64_t, \
                                                  std::span<std::byte>, const ecq::device_verdict&, ecq::every_coder)

#if defined(ECQ_COMPILED_CUDA)
ECQ_INSTANCE_OF_DEVICE_DECODING(extern template);
#endif
