#pragma once
/// \file
/// A value that compilers do not know.

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// `value`, a number or a pointer, of which a compiler knows nothing. GCC unrolls a loop of two rounds even where
/// ECQ_NO_UNROLL precedes it, unless it knows neither how many there are nor, by the places of an array that they use,
/// how many there may be.
template <class Value>
[[gnu::always_inline]] inline Value hidden_value(Value value) noexcept {
#if defined(__GNUC__)
  __asm__("" : "+r"(value));
#endif
  return value;
}

}  // namespace ecq::detail
