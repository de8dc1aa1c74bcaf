#pragma once
/// \file
/// Limits of the files that readers accept. Anything larger fails with errc::limit_exceeded before memory of that size
/// is allocated.

#include <cstddef>
#include <cstdint>

namespace ecq {

/// Limits of safetensors files, including containers. Within them, opening the worst header known (2^20 tensors in 64
/// MiB) takes less than four times its size in memory.
struct file_limits {
  static constexpr std::uint64_t header_bytes = 100'000'000;  ///< the reference implementation's limit
  static constexpr std::size_t tensors = std::size_t{1} << 20;
  static constexpr std::size_t metadata_entries = std::size_t{1} << 16;
  static constexpr std::size_t dimensions = 64;
  static constexpr std::size_t shards = std::size_t{1} << 12;

  /// The size of the pieces in which data are hashed, copied and given back; not a limit of files.
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
};

}  // namespace ecq
