#pragma once
/// \file
/// What the kernels that decode chunks are told: which chunks, and what becomes of them.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/cuda/tuning.cuh"

namespace ecq {

/// Chunks of a stream, and how they are dealt to blocks.
struct chunk_range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  unsigned warps = detail::most_warps;  ///< of a block that take chunks
};

/// What becomes of the chunks that a kernel decodes, a value that is passed to the kernel:
///
///  - `User::pairs`: it is for streams in pairs;
///  - `User::shared_bytes` of shared memory, a multiple of 16, are its own, and `load(shared)` is called first, by all
///    threads of a block, which wait for each other afterwards;
///  - `User::blocks` blocks of a stream of one table fit a multiprocessor, which bounds registers;
///  - `user(chunk, decode)` is called by a warp for each chunk, as chunk_decoder says; of gap arrays by all warps of a
///    block, which decode a part of it each, and as often as the block has decoded codes for them all.
template <class User>
concept chunk_user = requires {
  { User::pairs } -> std::convertible_to<bool>;
  { User::shared_bytes } -> std::convertible_to<std::size_t>;
  { User::blocks } -> std::convertible_to<unsigned>;
};

}  // namespace ecq
