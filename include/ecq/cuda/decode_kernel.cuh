#pragma once
/// \file
/// The one kernel that decodes streams, a template over the coding of the stream and over what becomes of the chunks.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/device_warp.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/stream/stream_warp.hpp"

namespace ecq {

namespace detail {

/// Most warps of a block: enough to share a table, few enough that blocks come and go.
inline constexpr unsigned decode_warps = 8;

}  // namespace detail

/// Chunks of a stream.
struct chunk_range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// What becomes of the chunks that a kernel decodes, a value that is passed to the kernel:
///
///  - `User::shared_bytes` of shared memory, a multiple of 16, are its own, and `load(shared)` is called first, by all
///    threads of a block, which wait for each other afterwards;
///  - `User::blocks` blocks of a stream of one table fit a multiprocessor, which bounds registers;
///  - `user(chunk, decode)` is called by a warp for each chunk, as chunk_decoder says.
template <class User>
concept chunk_user = requires {
  { User::shared_bytes } -> std::convertible_to<std::size_t>;
  { User::blocks } -> std::convertible_to<unsigned>;
};

/// Decodes chunks for `user`, a warp a chunk, by any number of blocks of any number of whole warps. `Coding` is the
/// stream's (visit_coding); dynamic shared memory: that of the user, then that of device_chunk_decoder. What does not
/// decode goes to `verdict` with its number; chunk checksums are not looked at.
template <class Coding, chunk_user User>
__global__ void __launch_bounds__(detail::decode_warps* lane_count, Coding::one_table ? User::blocks : 2)
    decode_kernel(warp_stream stream, chunk_range chunks, User user, unsigned long long* verdict) {
  auto* const shared = detail::dynamic_shared<std::byte>();
  user.load(shared);
  if constexpr (User::shared_bytes != 0 && !Coding::one_table) __syncthreads();
  const device_chunk_decoder<Coding> decode(stream, shared + User::shared_bytes);
  const unsigned warps = blockDim.x / lane_count;
  const unsigned warp = device_warp::uniform(threadIdx.x / lane_count);
  for (std::uint64_t chunk = chunks.first + std::uint64_t{blockIdx.x} * warps + warp; chunk < chunks.end;
       chunk += std::uint64_t{gridDim.x} * warps) {
    const errc outcome = decode(chunk, user);
    if (outcome != errc::ok && device_warp::lane_numbers() == 0) {
      detail::report_failure(verdict, errc::corrupt, chunk);
    }
  }
}

namespace detail {

/// Decodes chunks of a stream for `user` in order of gpu.stream.
template <chunk_user User>
result<void> launch_decode(const cuda& gpu, const device_stream& stream, const chunk_range& chunks, const User& user,
                           const device_verdict& verdict) {
  return visit_coding(stream.coding, [&]<class Coding>(Coding) {
    const std::uint64_t blocks = (chunks.end - chunks.first + decode_warps - 1) / decode_warps;
    const launch_shape shape = {static_cast<std::size_t>((std::min)(blocks, std::uint64_t{1} << 30)),
                                decode_warps * lane_count,
                                User::shared_bytes + device_chunk_decoder<Coding>::shared_bytes(stream.entries)};
    return launch(gpu, "launching a decoder", &decode_kernel<Coding, User>, shape, stream.view, chunks, user,
                  verdict.memory());
  });
}

}  // namespace detail

}  // namespace ecq
