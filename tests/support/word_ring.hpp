#pragma once
/// \file
/// Memory for the words of a warp, for chunk decoders on the host.

#include <cstddef>

#include "ecq/entropy/chunk_warp.hpp"

namespace ecq_test {

/// Returns the memory for one chunk after another on this thread.
inline std::byte* word_ring() {
  alignas(8) thread_local std::byte ring[ecq::word_ring_bytes];
  return ring;
}

}  // namespace ecq_test
