#pragma once
/// \file
/// Counts of the indices of codes that lie on a trellis. A code tells which quantiser it belongs to, so no walk is
/// needed.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq {

/// Returns the counts of indices, given the counts of their codes.
inline histogram counts_of_indices(const histogram& codes) noexcept {
  histogram indices;
  for (std::size_t code = 0; code < codes.counts.size(); ++code) {
    indices.counts[trellis::index(static_cast<std::uint8_t>(code))] += codes.counts[code];
  }
  return indices;
}

}  // namespace ecq
