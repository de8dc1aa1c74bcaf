#pragma once
/// \file
/// The fast memory that a chunk decoder of the host takes for a warp's words.

#include <cstddef>

#include "ecq/entropy/chunk_warp.hpp"

namespace ecq_test {

/// For one chunk after another on this thread.
inline std::byte* word_ring() {
  alignas(8) thread_local std::byte ring[ecq::word_ring_bytes];
  return ring;
}

}  // namespace ecq_test
