#pragma once
/// \file
/// Rounding of decoded weights to the element type that a caller asks for.

#include <type_traits>

#include "ecq/base/config.hpp"

namespace ecq {

/// Returns the element (float, bf16, fp16) nearest to `weight`, which is finite, ties to even. The element is finite,
/// too: a weight beyond the range of `Element` becomes the largest finite element, with its sign.
template <class Element>
ECQ_HOST_DEVICE constexpr Element nearest_finite(float weight) noexcept {
  if constexpr (std::is_same_v<Element, float>) {
    return weight;
  } else {
    constexpr float largest = Element::largest;
    return Element(weight > largest ? largest : weight < -largest ? -largest : weight);
  }
}

}  // namespace ecq
