#pragma once
/// \file
/// Definition of exact_weights_in().

#include <algorithm>
#include <cstdint>
#include <span>

#include "ecq/format/exact_weight.hpp"

namespace ecq {

ECQ_INLINE std::span<const exact_weight> exact_weights_in(std::span<const exact_weight> weights, std::uint64_t begin,
                                                          std::uint64_t end) noexcept {
  const auto first = std::ranges::lower_bound(weights, begin, {}, &exact_weight::position);
  const auto last = std::ranges::lower_bound(first, weights.end(), end, {}, &exact_weight::position);
  return {first, last};
}

}  // namespace ecq
