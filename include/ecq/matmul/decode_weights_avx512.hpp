#pragma once
/// \file
/// Decodes the weights of chunks to a target, by the sink that takes what their stream holds.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <cstddef>

#include "ecq/base/hidden_count.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/round_sinks_avx512.hpp"
#include "ecq/matmul/trellis_sinks_avx512.hpp"
#include "ecq/matmul/weight_sinks_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// A sink that gives chunks from number `first` on to another one.
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

/// advance_groups with a `Sink` made of `arguments`.
template <class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool advance_weights(const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                                       std::size_t groups, const Arguments&... arguments) {
  Sink sink(arguments...);
  if constexpr (Sink::together == weight_chunks) {
    return advance_groups<weight_chunks>(lookup, cursors, groups, sink);
  } else {
    const std::size_t chunks = hidden_count(weight_chunks);
    ECQ_NO_UNROLL
    for (std::size_t first = 0; first < chunks; first += Sink::together) {
      later_chunks<Sink> part{sink, first};
      if (!advance_groups<Sink::together>(lookup, cursors + first, groups, part)) return false;
    }
    return true;
  }
}

/// advance_rounds with a `Sink` for each part of the chunks, made of the number of its first chunk and `arguments`.
template <class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool advance_in_rounds(const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                                         std::size_t groups, const Arguments&... arguments) {
  const std::size_t chunks = Sink::together == weight_chunks ? weight_chunks : hidden_count(weight_chunks);
  ECQ_NO_UNROLL
  for (std::size_t first = 0; first < chunks; first += Sink::together) {
    Sink sink(first, arguments...);
    if (!advance_rounds<Sink::together>(lookup, cursors + first, groups, sink)) return false;
  }
  return true;
}

/// Decodes all groups of weight_chunks chunks of equal length to `target`. Returns false if one of them is damaged, or
/// has pairs that no sink takes. Escapes of pairs that are on no trellis become 0.
template <unsigned BucketBits, class Target>
inline bool decode_weights(const weight_coding& coding, const alias_lookup<BucketBits>& lookup,
                           rans_cursor* const* cursors, const Target& target) {
  const std::size_t groups = cursors[0]->left / group_symbols;
  if (coding.how == fusion::pairs && !coding.pairs->usable) return false;
  if (coding.walk && coding.how == fusion::codes) {
    return advance_in_rounds<trellis_rounds<Target, BucketBits>>(lookup, cursors, groups, lookup.code, *coding.walk,
                                                                 target);
  }
  if (coding.walk) {
    return advance_weights<trellis_pair_weights<Target>>(lookup, cursors, groups, *coding.pairs, *coding.walk, cursors,
                                                         target);
  }
  if (coding.how == fusion::codes) {
    return advance_in_rounds<code_rounds<Target>>(lookup, cursors, groups, lookup.code, coding.halves, target);
  }
  if (coding.how == fusion::bf16) {
    return advance_in_rounds<bf16_rounds<Target>>(lookup, cursors, groups, lookup.code, cursors, target);
  }
  const pair_values& values = *coding.pairs;
  if (!coding.in_rounds) {
    if constexpr (Target::takes_blocks) {
      return advance_weights<pair_weights<Target>>(lookup, cursors, groups, values, cursors, target);
    }
    return false;
  }
  return values.raw_bits == 0
             ? advance_in_rounds<pair_rounds<Target, false>>(lookup, cursors, groups, values, cursors, target)
             : advance_in_rounds<pair_rounds<Target, true>>(lookup, cursors, groups, values, cursors, target);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
