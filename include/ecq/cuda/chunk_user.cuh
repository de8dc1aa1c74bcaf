#pragma once
/// \file
/// The arguments of kernels that decode chunks: which chunks to decode, and what to do with them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ecq/cuda/tuning.cuh"
#include "ecq/entropy/warp_table.hpp"

namespace ecq {

/// Chunks first, ..., end - 1 of a stream, and their distribution over blocks.
struct chunk_range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  unsigned warps = detail::most_warps;  ///< number of warps per block that decode chunks
};

/// A kernel argument that says what to do with decoded chunks. Its requirements:
///
///  - `User::pairs`: whether it is for streams in pairs;
///  - `User::shared_bytes`: bytes of shared memory that it needs, a multiple of 16. All threads of a block first call
///    `load(shared)` with this memory, then synchronise;
///  - `User::blocks(coding)`: number of blocks that a multiprocessor shall hold, which limits registers. It is for
///    streams whose one table has that warp_coding or, with std::nullopt, for streams with tables of any coding;
///  - `user(chunk, decode)`: a warp calls it for each chunk, as chunk_decoder describes. With gap arrays, all warps of
///    a block call it, each for its part of the codes, every time the block has decoded codes for all of them.
template <class User>
concept chunk_user = requires {
  { User::pairs } -> std::convertible_to<bool>;
  { User::shared_bytes } -> std::convertible_to<std::size_t>;
  { User::blocks(std::optional<warp_coding>()) } -> std::convertible_to<unsigned>;
};

}  // namespace ecq
