#pragma once
/// \file
/// Decoding the chunks of a stream of coder rans on a device: one warp a chunk.

#include <cstddef>
#include <cstdint>

#include "ecq/cuda/device_warp.cuh"
#include "ecq/entropy/rans_slots.hpp"
#include "ecq/entropy/rans_warp.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// A stream in device memory: pointers to its sections, from the offsets of a stream_header that was parsed on the
/// host. `raw` may be null when raw_bits is 0.
struct device_stream {
  const std::byte* index;
  const std::byte* states;
  const std::byte* words;
  const std::byte* raw;
  std::uint64_t symbols;
  std::uint64_t chunks;
  unsigned chunk_bits;
  unsigned raw_bits;
  const rans_slots_view* tables;  ///< table_count of them; they and what they point to lie in device memory
  std::uint32_t table_count;
};

/// Direct tables of up to this many slots are copied to shared memory.
inline constexpr unsigned rans_shared_slots = 4096;

/// Decodes chunks [first_chunk, first_chunk + gridDim.x * WarpsPerBlock) that exist, chunk c to
/// out + ((c - first_chunk) << chunk_bits), which is aligned to 4 bytes. Of the chunks that do not decode,
/// `failed_chunk` gets the lowest number (the caller sets it to ~0 before). Launch with WarpsPerBlock * 32 threads a
/// block, which share one copy of the decode table. Chunk checksums are not looked at.
template <unsigned WarpsPerBlock>
__global__ void __launch_bounds__(WarpsPerBlock* lane_count)
    rans_decode_kernel(device_stream stream, std::uint64_t first_chunk, std::uint8_t* out,
                       unsigned long long* failed_chunk) {
  __shared__ std::uint64_t entries[256];
  __shared__ std::uint16_t dividers[alias_table::max_buckets];
  __shared__ std::uint8_t entry_of_slot[rans_shared_slots];
  rans_slots_view table = stream.tables[0];
  if (stream.table_count == 1 && !table.constant) {
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) entries[i] = table.entries[i];
    table.entries = entries;
    if (table.bucket_bits != 0) {
      for (unsigned i = threadIdx.x; i < alias_table::max_buckets; i += blockDim.x) dividers[i] = table.dividers[i];
      table.dividers = dividers;
    } else if ((1U << table.scale_bits) <= rans_shared_slots) {
      for (unsigned i = threadIdx.x; i < 1U << table.scale_bits; i += blockDim.x) {
        entry_of_slot[i] = table.entry_of_slot[i];
      }
      table.entry_of_slot = entry_of_slot;
    }
  }
  __syncthreads();
  const std::uint64_t local = std::uint64_t{blockIdx.x} * WarpsPerBlock + threadIdx.x / lane_count;
  const std::uint64_t chunk = first_chunk + local;
  if (chunk >= stream.chunks) return;
  const auto* record = reinterpret_cast<const std::uint64_t*>(stream.index) + 2 * chunk;
  if (stream.table_count > 1) table = stream.tables[(record[1] >> 32) & 0xFFFFU];
  const std::uint64_t begin = chunk << stream.chunk_bits;
  const std::uint64_t left = stream.symbols - begin;
  const std::uint64_t whole = std::uint64_t{1} << stream.chunk_bits;
  const warp_chunk coded = {stream.states + chunk * lane_count * 4,
                            stream.words + 2 * record[0],
                            stream.raw + (begin >> 3) * stream.raw_bits,
                            static_cast<std::uint32_t>(record[2] - record[0]),
                            static_cast<std::uint32_t>(left < whole ? left : whole),
                            stream.raw_bits};
  const errc outcome = rans_decode_by_warp<device_warp>(table, coded, out + (local << stream.chunk_bits));
  if (outcome != errc::ok && threadIdx.x % lane_count == 0) {
    atomicMin(failed_chunk, static_cast<unsigned long long>(chunk));
  }
}

}  // namespace ecq
