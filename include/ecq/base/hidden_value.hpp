#pragma once
/// \file
/// Values that compilers cannot see through.

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// Returns `value`, a number or a pointer, in a way that hides it from the optimiser. GCC unrolls a loop of two
/// iterations even after ECQ_NO_UNROLL, unless it knows neither their number nor a bound for it, which an array that
/// they index may give.
template <class Value>
[[gnu::always_inline]] inline Value hidden_value(Value value) noexcept {
#if defined(__GNUC__)
  __asm__("" : "+r"(value));
#endif
  return value;
}

}  // namespace ecq::detail
