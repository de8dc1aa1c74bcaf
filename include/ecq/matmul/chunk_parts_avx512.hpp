#pragma once
/// \file
/// Walks through the weight_chunks chunks of a task with AVX-512, as many at a time as a sink takes side by side.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

#include "ecq/base/hidden_value.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/matmul/fusion.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Sink that passes chunks from number `first` on to another sink.
template <class Sink>
struct later_chunks {
  static constexpr bool rolls = Sink::rolls;

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&symbols)[2]) {
    return sink.take(first + c, symbols);
  }
  void leave(std::size_t c, rans_cursor& cursor) const { sink.leave(first + c, cursor); }

  Sink& sink;
  std::size_t first;
};

/// Calls advance_groups() with a `Sink` made from `arguments`, for Sink::together chunks at a time.
template <class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool advance_weights(const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                                       std::size_t groups, const Arguments&... arguments) {
  Sink sink(arguments...);
  if constexpr (Sink::together == weight_chunks) {
    return advance_groups<weight_chunks>(lookup, cursors, groups, sink);
  } else {
    const std::size_t chunks = hidden_value(weight_chunks);
    ECQ_NO_UNROLL
    for (std::size_t first = 0; first < chunks; first += Sink::together) {
      later_chunks<Sink> part{sink, first};
      if (!advance_groups<Sink::together>(lookup, cursors + first, groups, part)) return false;
    }
    return true;
  }
}

/// Calls advance_rounds() for Sink::together chunks at a time, each time with a `Sink` made from the number of the
/// first of them and `arguments`.
template <class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool advance_in_rounds(const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                                         std::size_t groups, const Arguments&... arguments) {
  const std::size_t chunks = Sink::together == weight_chunks ? weight_chunks : hidden_value(weight_chunks);
  ECQ_NO_UNROLL
  for (std::size_t first = 0; first < chunks; first += Sink::together) {
    Sink sink(first, arguments...);
    if (!advance_rounds<Sink::together>(lookup, cursors + first, groups, sink)) return false;
  }
  return true;
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
