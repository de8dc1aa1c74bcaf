#pragma once
/// \file
/// How long-running work on whole checkpoints reports its progress.

#include <cstdint>
#include <functional>
#include <string_view>

namespace ecq {

/// A step of work on a checkpoint: `done` of `total` bytes of input are processed, and `current` is the next block or
/// tensor. Within one stage, `done` never falls; of a folder that is decompressed or verified, each container is a
/// stage of its own.
struct progress {
  std::string_view stage;  ///< "searching lambda", "compressing", "decompressing", "verifying", ...
  std::string_view current;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// Called from the calling thread only; may be empty. Returning false stops the work with errc::invalid_argument
/// ("interrupted") and leaves nothing behind.
using progress_callback = std::function<bool(const progress&)>;

}  // namespace ecq
