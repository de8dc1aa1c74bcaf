#pragma once
/// \file
/// Progress of long-running work on whole checkpoints.

#include <cstdint>
#include <functional>
#include <string_view>

namespace ecq {

/// A step of work on a checkpoint: `done` of `total` bytes are processed (of the output when decompressing), and
/// `current` is the next block or tensor. Within one stage, `done` never falls; if a folder is decompressed or
/// verified, each container is a stage of its own.
struct progress {
  std::string_view stage;  ///< "searching lambda", "compressing", "decompressing", "verifying", ...
  std::string_view current;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// Callback that receives progress, in the calling thread only; may be empty. If it returns false, the work stops with
/// errc::invalid_argument ("interrupted") and leaves nothing behind.
using progress_callback = std::function<bool(const progress&)>;

}  // namespace ecq
