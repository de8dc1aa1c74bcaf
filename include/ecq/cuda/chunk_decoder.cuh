#pragma once
/// \file
/// Decoding of a stream's chunks inside kernels, both the library's and users' own.

#include <cstddef>
#include <cstdint>

#include "ecq/cuda/device_warp.cuh"
#include "ecq/stream/stream_warp.hpp"

namespace ecq {

namespace detail {

/// Copies `words` words to shared memory aligned to 16 bytes. All threads of a block call it and must synchronise
/// afterwards.
__device__ inline void copy_to_shared(std::uint32_t* to, const std::uint32_t* from, std::uint32_t words) {
  std::uint32_t done = 0;
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(::uint4) == 0) {
    for (std::uint32_t i = threadIdx.x; i < words / 4; i += blockDim.x) {
      reinterpret_cast<::uint4*>(to)[i] = reinterpret_cast<const ::uint4*>(from)[i];
    }
    done = words / 4 * 4;
  }
  for (std::uint32_t i = done + threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

}  // namespace detail

/// Decoder of chunks inside a kernel, one warp per chunk, into any sink of entropy/chunk_warp.hpp:
/// \code
///   template <class Coding>  // from visit_coding(stream.coding, ...) on the host
///   __global__ void kernel(ecq::warp_stream stream, ...) {
///     extern __shared__ uint4 shared[];  // device_chunk_decoder<Coding>::shared_bytes(stream.entries, threads)
///     const ecq::device_chunk_decoder<Coding> decode(stream, shared);
///     // then any warp, as often as it likes, with the same arguments in all its threads:
///     const ecq::errc verdict = decode(chunk, [&](const ecq::stream_chunk& chunk, auto&& into) {
///       return into([&](std::uint32_t codes, std::uint32_t group, std::uint32_t left) { ... });
///     });
///   }
/// \endcode
/// The sink is called once for each group of 128 elements, of which `left` exist. The four bytes of `codes` are the
/// decoded bytes of elements chunk.begin + 128 * group + 4 * lane and the next three. If chunk.raw_bits != 0, raw bits
/// have to be joined to them (to codes in pairs, after the pairs are split). The sinks of stream/element_warp.hpp and
/// pair_warp.hpp do so; they write to global memory with device_warp and to shared memory with device_warp_to_shared.
/// If chunk.walk has state bits, the decoded bytes are indices on a trellis, not codes. The same sinks take chunk.walk
/// and turn indices into codes; other sinks pass all groups, once they have their raw bits, to a warp_trellis. The sink
/// is not called if the index leads out of the stream.
template <class Coding>
class device_chunk_decoder : public chunk_decoder<device_warp, Coding> {
 public:
  /// All threads of a block call the constructor together, and it may synchronise them. `shared` is shared memory,
  /// aligned to 16 bytes.
  __device__ device_chunk_decoder(const warp_stream& stream, void* shared)
      : chunk_decoder<device_warp, Coding>(stream, entries_of(stream, static_cast<std::uint32_t*>(shared)),
                                           ring_in(stream, static_cast<std::byte*>(shared))) {}

  /// Returns the number of bytes of shared memory that a block of `threads` threads needs for a stream whose one table
  /// has `entries` entries: at most 24 KiB for the table, and 1280 bytes per warp. Blocks of 20 warps and more, or
  /// smaller ones with other shared memory, may exceed 48 KiB; such a kernel can be launched only if its attribute
  /// cudaFuncAttributeMaxDynamicSharedMemorySize allows it.
  static constexpr std::size_t shared_bytes(std::uint32_t entries, unsigned threads) {
    return table_bytes(entries) + std::size_t{threads / lane_count} * word_ring_bytes;
  }

 private:
  static __host__ __device__ constexpr std::size_t table_bytes(std::uint32_t entries) {
    return Coding::one_table ? (sizeof(std::uint32_t) * entries + 15) / 16 * 16 : 0;
  }
  static __device__ const std::uint32_t* entries_of(const warp_stream& stream, std::uint32_t* shared) {
    if constexpr (Coding::one_table) {
      const warp_table& table = stream.tables[0];
      detail::copy_to_shared(shared, stream.entries + table.first, table.entries);
      __syncthreads();
      return device_warp::kept(shared);
    } else {
      return stream.entries;
    }
  }
  static __device__ std::byte* ring_in(const warp_stream& stream, std::byte* shared) {
    const std::uint32_t warp = device_warp::uniform(threadIdx.x / lane_count);
    if constexpr (Coding::one_table) shared += table_bytes(stream.tables[0].entries);
    return shared + warp * word_ring_bytes;
  }
};

}  // namespace ecq
