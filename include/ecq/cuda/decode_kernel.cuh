#pragma once
/// \file
/// Decoding the chunks of a stream of coder raw, rans, tans or huffman on a device: one warp a chunk.

#include <cstddef>
#include <cstdint>

#include "ecq/cuda/device_warp.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/entropy/step_warp.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// A stream in device memory: pointers to its sections, from the offsets of a stream_header that was parsed on the
/// host, and its decode tables. `raw` may be null when raw_bits is 0. A stream in pairs (stream_header::pairs) is none
/// that a kernel here decodes.
struct device_stream_view {
  const std::byte* index;
  const std::byte* states;
  const std::byte* words;
  const std::byte* raw;
  std::uint64_t elements;
  std::uint64_t chunks;
  std::uint64_t word_count;
  const warp_table* tables;
  const std::uint32_t* entries;  ///< the image that the tables describe
  std::uint32_t table_count;
  std::uint32_t state_bytes;  ///< of a chunk
  unsigned chunk_bits;
  unsigned raw_bits;  ///< of an element
};

/// Chunks to be decoded, and where to.
struct device_range {
  std::uint64_t first_chunk;
  std::uint64_t chunks;
  std::uint64_t first;  ///< elements first, first + 1, ..., last - 1 of the stream are written
  std::uint64_t last;
  std::byte* out;               ///< where element `first` goes
  unsigned long long* verdict;  ///< as device_verdict::memory
};

namespace detail {

/// What the index says of chunk `chunk`; errc::corrupt if that is beyond the stream.
template <element_split Split>
__device__ inline errc load_chunk(const device_stream_view& stream, std::uint64_t chunk, warp_chunk& coded,
                                  std::uint32_t& table) {
  const auto* const record = reinterpret_cast<const std::uint64_t*>(stream.index) + 2 * chunk;
  const std::uint64_t first_word = record[0];
  const std::uint64_t last_word = record[2];
  const std::uint64_t begin = chunk << stream.chunk_bits;
  const std::uint64_t left = stream.elements - begin;
  const std::uint64_t whole = std::uint64_t{1} << stream.chunk_bits;
  coded.symbols = device_warp::uniform(static_cast<std::uint32_t>(left < whole ? left : whole));
  table = static_cast<std::uint32_t>(record[1] >> 32) & 0xFFFFU;
  if (first_word > last_word || last_word > stream.word_count || last_word - first_word > coded.symbols ||
      table >= stream.table_count) {
    return errc::corrupt;
  }
  coded.word_count = static_cast<std::uint32_t>(last_word - first_word);
  coded.words = stream.words + 2 * first_word;
  coded.states = stream.states + chunk * stream.state_bytes;
  return errc::ok;
}

/// Chunk number of this warp, or none.
template <unsigned Warps>
__device__ inline bool chunk_of_warp(const device_stream_view& stream, const device_range& range,
                                     std::uint64_t& chunk) {
  const std::uint64_t local = std::uint64_t{blockIdx.x} * Warps + device_warp::uniform(threadIdx.x / lane_count);
  chunk = range.first_chunk + local;
  return local < range.chunks && chunk < stream.chunks;
}

template <element_split Split>
__device__ inline errc decode_chunk(const device_stream_view& stream, const device_range& range, std::uint64_t chunk,
                                    const warp_table& table, const std::uint32_t* entries, const warp_chunk& coded) {
  constexpr std::size_t width = element_bits<Split> / 8;
  const std::uint64_t begin = chunk << stream.chunk_bits;
  const std::uint64_t end = begin + coded.symbols;
  // The chunk's first element may lie before all that is written: a number, not a pointer into anything.
  const std::uint64_t to = reinterpret_cast<std::uint64_t>(range.out) + (begin - range.first) * width;
  const chunk_target target = {
      reinterpret_cast<std::byte*>(to),
      device_warp::uniform(range.first > begin ? static_cast<std::uint32_t>(range.first - begin) : 0U),
      device_warp::uniform(range.last < end ? static_cast<std::uint32_t>(range.last - begin) : coded.symbols),
      to % (4 * width) == 0};
  const warp_element_sink<device_warp, Split> sink = {stream.raw + begin / 8 * stream.raw_bits, stream.raw_bits,
                                                      target};
  return decode_chunk_by_warp<device_warp>(table, entries, coded, sink);
}

__device__ inline void report(errc outcome, std::uint64_t chunk, const device_range& range) {
  if (outcome != errc::ok && device_warp::lane_numbers() == 0) {
    report_failure(range.verdict, errc::corrupt, chunk);
  }
}

}  // namespace detail

/// Decodes the chunks of `range` that exist, of a stream whose one table is of coding `Coding`. Launch with Warps warps
/// a block, one a chunk, and 4 bytes of dynamic shared memory an entry of the table. Chunk checksums are not looked at.
template <element_split Split, warp_coding Coding, unsigned Warps>
__global__ void __launch_bounds__(Warps* lane_count) decode_kernel(device_stream_view stream, device_range range) {
  auto* const shared_entries = detail::dynamic_shared<std::uint32_t>();
  warp_table table = stream.tables[0];
  for (std::uint32_t i = threadIdx.x; i < table.entries; i += Warps * lane_count) {
    shared_entries[i] = stream.entries[table.first + i];
  }
  __syncthreads();
  std::uint64_t chunk = 0;
  if (!detail::chunk_of_warp<Warps>(stream, range, chunk)) return;
  warp_chunk coded;
  std::uint32_t number = 0;
  errc outcome = detail::load_chunk<Split>(stream, chunk, coded, number);
  table.coding = Coding;
  if (outcome == errc::ok) outcome = detail::decode_chunk<Split>(stream, range, chunk, table, shared_entries, coded);
  detail::report(outcome, chunk, range);
}

/// As above for streams of any tables, which stay in global memory.
template <element_split Split, unsigned Warps>
__global__ void __launch_bounds__(Warps* lane_count) decode_any_kernel(device_stream_view stream, device_range range) {
  std::uint64_t chunk = 0;
  if (!detail::chunk_of_warp<Warps>(stream, range, chunk)) return;
  warp_chunk coded;
  std::uint32_t number = 0;
  errc outcome = detail::load_chunk<Split>(stream, chunk, coded, number);
  if (outcome == errc::ok) {
    const warp_table table = stream.tables[number];
    outcome = detail::decode_chunk<Split>(stream, range, chunk, table, stream.entries + table.first, coded);
  }
  detail::report(outcome, chunk, range);
}

}  // namespace ecq
