#pragma once
/// \file
/// What a reader accepts at most. Beyond is errc::limit_exceeded, before anything of that size is allocated.

#include <cstddef>
#include <cstdint>

namespace ecq {

/// Limits of safetensors files, ours among them. With them, opening the worst header known (2^20 tensors in 64 MiB)
/// takes less than four times its size in memory.
struct file_limits {
  static constexpr std::uint64_t header_bytes = 100'000'000;  ///< the reference implementation's limit
  static constexpr std::size_t tensors = std::size_t{1} << 20;
  static constexpr std::size_t metadata_entries = std::size_t{1} << 16;
  static constexpr std::size_t dimensions = 64;
  static constexpr std::size_t shards = std::size_t{1} << 12;

  /// Not a limit of files: data are hashed, copied and given back in pieces of this size.
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
};

}  // namespace ecq
