#pragma once
/// \file
/// Exact weights, which are stored unchanged beside the codes of their matrix.

#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"

namespace ecq {

/// A weight that replaces the value of its code.
struct exact_weight {
  std::uint64_t position = 0;  ///< row * columns + column
  float weight = 0;            ///< finite

  bool operator==(const exact_weight&) const = default;
};

/// Size in bytes of an exact weight in a file: its position and its bits.
inline constexpr std::uint64_t exact_weight_bytes = 12;

/// Returns the weights at positions in [begin, end); precondition: the positions of `weights` ascend.
std::span<const exact_weight> exact_weights_in(std::span<const exact_weight> weights, std::uint64_t begin,
                                               std::uint64_t end) noexcept;

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/format/exact_weight-inl.hpp"
#endif
