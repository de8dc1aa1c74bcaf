#pragma once
/// \file
/// The kernel that decodes streams: a template over the coding of the stream and the chunk_user.

#include <cstddef>
#include <cstdint>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/chunk_user.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/device_warp.cuh"
#include "ecq/cuda/gap_kernel.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/tuning.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/stream/stream_warp.hpp"

namespace ecq {

namespace detail {

/// Returns the number of blocks of decode_kernel that a multiprocessor shall hold.
template <class Coding, chunk_user User>
constexpr unsigned decoder_blocks() {
  if constexpr (Coding::one_table) {
    return User::blocks(Coding::coding);
  } else {
    return User::blocks(std::nullopt);
  }
}

}  // namespace detail

/// Decodes chunks for `user`, one warp per chunk, with any number of blocks of any number of whole warps. `Coding` is
/// that of the stream (visit_coding). Dynamic shared memory: that of the user, then that of device_chunk_decoder.
/// `verdict` reports the number of a chunk that does not decode; chunk checksums are not checked.
template <class Coding, chunk_user User>
__global__ void __launch_bounds__(detail::most_warps* lane_count, detail::decoder_blocks<Coding, User>())
    decode_kernel(warp_stream stream, chunk_range chunks, User user, unsigned long long* verdict) {
  auto* const shared = detail::dynamic_shared<std::byte>();
  user.load(shared);
  if constexpr (User::shared_bytes != 0 && !Coding::one_table) __syncthreads();
  const device_chunk_decoder<Coding> decode(stream, shared + User::shared_bytes);
  const unsigned warp = device_warp::uniform(threadIdx.x / lane_count);
  if (warp >= chunks.warps) return;
  for (std::uint64_t chunk = chunks.first + std::uint64_t{blockIdx.x} * chunks.warps + warp; chunk < chunks.end;
       chunk += std::uint64_t{gridDim.x} * chunks.warps) {
    const errc outcome = decode(chunk, user);
    if (outcome != errc::ok && device_warp::lane_numbers() == 0) {
      detail::report_failure(verdict, errc::corrupt, chunk);
    }
  }
}

namespace detail {

/// Decodes chunks of a stream for `user` on gpu.stream, dealt to blocks as suits the device. Errors: invalid_argument
/// if the stream lies on another device; unsupported if its coder is not among `Coders`; device_error.
template <coder_names Coders, chunk_user User>
result<void> launch_decode(const cuda& gpu, const device_stream& stream, chunk_range chunks, const User& user,
                           const device_verdict& verdict) {
  ECQ_TRY(device, current_device());
  ECQ_CHECK(check_device(device, stream.device, "the stream"));
  ECQ_CHECK(check_aligned(verdict.memory(), 8, "the verdict"));
  if (chunks.first >= chunks.end) return {};
  if (stream.coder != coder_id::raw && !Coders::names_coder(stream.coder)) {
    return stream_error(errc::unsupported, "coder ", to_string(stream.coder), " has no kernels in this program");
  }
  if constexpr (!User::pairs && Coders::names_coder(coder_id::huffman_gaps)) {
    if (stream.gaps) return launch_gaps(gpu, device, stream, chunks.first, chunks.end, user, verdict);
  }
  return visit_coding<Coders>(stream.coding, [&]<class Coding>(Coding) -> result<void> {
    const auto kernel = &decode_kernel<Coding, User>;
    const tuning_row& row = tuning_of(device.capability);
    const unsigned threads = row.warps * lane_count;
    launch_shape shape = {0, threads,
                          User::shared_bytes + device_chunk_decoder<Coding>::shared_bytes(stream.entries, threads)};
    ECQ_TRY(resident, resident_blocks("querying the occupancy of a decoder", kernel, shape));
    const chunk_deal deal =
        deal_of(row, device.multiprocessors, resident, chunks.end - chunks.first, stream.view.chunk_bits);
    shape.blocks = deal.blocks;
    chunks.warps = deal.warps;
    return launch(gpu, "launching a decoder", kernel, shape, stream.view, chunks, user, verdict.memory());
  });
}

}  // namespace detail

}  // namespace ecq
