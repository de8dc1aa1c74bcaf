#pragma once
/// \file
/// Weights that stay as they are, beside the codes of their matrix.

#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"

namespace ecq {

/// A weight that takes the place of what its code says.
struct exact_weight {
  std::uint64_t position = 0;  ///< row * columns + column
  float weight = 0;            ///< finite

  bool operator==(const exact_weight&) const = default;
};

/// The size in bytes of an exact weight in a file: its position and its bits.
inline constexpr std::uint64_t exact_weight_bytes = 12;

/// Those of `weights`, whose positions ascend, from position `begin` up to, not including, `end`.
std::span<const exact_weight> exact_weights_in(std::span<const exact_weight> weights, std::uint64_t begin,
                                               std::uint64_t end) noexcept;

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/format/exact_weight-inl.hpp"
#endif
