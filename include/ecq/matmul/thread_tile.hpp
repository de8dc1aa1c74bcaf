#pragma once
/// \file
/// Memory of a thread for weights that it has decoded.

#include <algorithm>
#include <cstddef>

#include "ecq/base/line_vector.hpp"
#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Returns the tile of this thread, of at least `size` bytes. It lives as long as the thread.
inline std::byte* tile_of_thread(std::size_t size) {
  thread_local line_vector<std::byte> tile;
  if (tile.size() < size) tile.resize(size);
  return tile.data();
}

/// Sets to[i] to the place of chunk i in a tile that holds the weights of `chunks` chunks, one chunk behind the other.
/// All further places are that of the last chunk, which kernels decode again to fill their registers.
template <class Weight>
void place_chunks(Weight* tile, std::size_t chunks, std::size_t chunk_symbols, Weight* (&to)[weight_chunks]) {
  for (std::size_t i = 0; i < weight_chunks; ++i) to[i] = tile + (std::min)(i, chunks - 1) * chunk_symbols;
}

}  // namespace ecq::detail
