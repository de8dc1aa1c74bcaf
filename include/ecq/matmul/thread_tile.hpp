#pragma once
/// \file
/// Memory of a thread for the weights that it has decoded.

#include <cstddef>

#include "ecq/base/line_vector.hpp"

namespace ecq::detail {

/// The tile of this thread, of at least `size` bytes. It stays, as does the thread.
inline std::byte* tile_of_thread(std::size_t size) {
  thread_local line_vector<std::byte> tile;
  if (tile.size() < size) tile.resize(size);
  return tile.data();
}

}  // namespace ecq::detail
