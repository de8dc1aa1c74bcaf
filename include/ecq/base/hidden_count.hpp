#pragma once
/// \file
/// A number that compilers do not know.

#include <cstddef>

namespace ecq::detail {

/// `count`, of which a compiler knows nothing. GCC unrolls a loop of two rounds even where ECQ_NO_UNROLL precedes it,
/// unless it knows neither how many there are nor, by the places of an array that they use, how many there may be.
[[gnu::always_inline]] inline std::size_t hidden_count(std::size_t count) noexcept {
  __asm__("" : "+r"(count));
  return count;
}

}  // namespace ecq::detail
