#pragma once
/// \file
/// The kernel that decodes streams of gap arrays.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/chunk_user.cuh"
#include "ecq/cuda/device_gap_group.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/tuning.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/entropy/huffman_gaps/huffman_gap_chunk.hpp"

namespace ecq {

namespace detail {

/// The chunk that a block decodes.
struct gap_job {
  stream_chunk found;
  gap_chunk opened;
  std::uint32_t loaded;  ///< number of the table whose entries are in shared memory

  static constexpr std::uint32_t words = 64;
};
static_assert(sizeof(gap_job) <= 4 * gap_job::words);

/// Returns the number of blocks of decode_gaps_kernel that a multiprocessor shall hold.
template <chunk_user User>
constexpr unsigned gap_blocks() {
  constexpr unsigned blocks = User::blocks(warp_coding::huffman_gaps);
  return blocks < 4 ? blocks + 1 : 5;
}

}  // namespace detail

/// Chunks of a stream from `first` on, divided into 2^parts_log2 parts each; `items` parts in all.
struct gap_deal {
  std::uint64_t first;
  std::uint32_t items;
  std::uint32_t parts_log2;
};

/// Decodes chunks for `user`, one part per block of device_gap_group::size() threads, with any number of blocks.
/// Dynamic shared memory: that of the user, then 2 * gap_entry::count + gap_job::words words, the own words of
/// device_gap_group, and gap_code::shared_words of the shortest code word. `verdict` reports the number of a chunk that
/// does not decode; chunk checksums are not checked.
template <chunk_user User>
__global__ void __launch_bounds__(device_gap_group::size(), detail::gap_blocks<User>())
    decode_gaps_kernel(warp_stream stream, gap_stream gaps, gap_deal deal, User user, unsigned long long* verdict) {
  auto* const shared = detail::dynamic_shared<std::byte>();
  user.load(shared);
  auto* const fast_entries = reinterpret_cast<std::uint32_t*>(shared + User::shared_bytes);
  // Values that are the same for all threads lie in shared memory, because registers are scarce.
  auto& job = *reinterpret_cast<detail::gap_job*>(fast_entries + 2 * gap_entry::count);
  device_gap_group group(fast_entries + 2 * gap_entry::count + detail::gap_job::words);
  if (threadIdx.x == 0) job.loaded = ~0U;
  for (std::uint32_t item = blockIdx.x; item < deal.items; item += gridDim.x) {
    const std::uint64_t number = deal.first + (item >> deal.parts_log2);
    stream_chunk found;
    errc outcome = find_chunk<device_warp>(stream, number, found);
    if (outcome == errc::ok) {
      const warp_table table = stream.tables[found.table];
      const std::uint32_t* const entries = stream.entries + table.first;
      gap_chunk opened;
      outcome = open_gap_chunk<device_gap_group>(gap_code_of(table, entries, gaps.raw_bits, gaps.symbol_bits),
                                                 found.coded, opened);
      __syncthreads();
      if (job.loaded != found.table && table.coding == warp_coding::huffman_gaps) {
        detail::copy_to_shared(fast_entries, entries, 2 * gap_entry::count);
      }
      __syncthreads();
      if (threadIdx.x == 0) job = {found, opened, table.coding == warp_coding::huffman_gaps ? found.table : job.loaded};
      __syncthreads();
    }
    if (outcome == errc::ok) {
      const auto part = item & ((1U << deal.parts_log2) - 1);
      outcome = decode_gap_chunk(group, device_gap_group::in_register(fast_entries), job.opened, part,
                                 1U << deal.parts_log2, [&](auto&& give) {
                                   stream_chunk chunk = job.found;
                                   chunk.walk = {0, 0};  // tells the compiler that gap arrays have no trellis
                                   return user(chunk, give);
                                 });
    }
    if (outcome != errc::ok && device_warp::lane_numbers() == 0) {
      detail::report_failure(verdict, errc::corrupt, number);
    }
  }
}

namespace detail {

/// Decodes chunks begin, ..., end - 1 of a stream of gap arrays, as launch_decode does for other streams. Blocks stay
/// on the device for several chunks, because each loads its tables. If there are too few chunks to keep them busy, each
/// chunk is dealt to several blocks.
template <chunk_user User>
result<void> launch_gaps(const cuda& gpu, const device_traits& device, const device_stream& stream, std::uint64_t begin,
                         std::uint64_t end, const User& user, const device_verdict& verdict) {
  constexpr std::uint64_t turns = 2;  // chunks are divided until there are this many parts per block
  constexpr std::uint64_t most_chunks = std::uint64_t{1} << 24;
  const auto kernel = &decode_gaps_kernel<User>;
  const std::size_t words = 2 * gap_entry::count + gap_job::words + device_gap_group::own_words +
                            gap_code::shared_words(stream.gaps->shortest);
  launch_shape shape = {0, device_gap_group::size(), User::shared_bytes + sizeof(std::uint32_t) * words};
  ECQ_TRY(resident, resident_blocks("querying the occupancy of a decoder", kernel, shape));
  const std::uint64_t staying = (std::max)(std::uint64_t{device.multiprocessors} * resident, std::uint64_t{1});
  const std::uint64_t steps =
      stream.view.word_count / stream.view.chunks / (gap_stretch_windows * 4) + 1;  // of a chunk
  for (; begin < end; begin += most_chunks) {
    const std::uint64_t count = (std::min)(end - begin, most_chunks);
    std::uint32_t parts_log2 = 0;
    while (count << parts_log2 < turns * staying && steps >> parts_log2 > 1) ++parts_log2;
    const auto items = static_cast<std::uint32_t>(count << parts_log2);
    shape.blocks = static_cast<std::size_t>((std::min)(std::uint64_t{items}, staying));
    ECQ_CHECK(launch(gpu, "launching a decoder", kernel, shape, stream.view, *stream.gaps,
                     gap_deal{begin, items, parts_log2}, user, verdict.memory()));
  }
  return {};
}

}  // namespace detail

}  // namespace ecq
