#pragma once
/// \file
/// Decodes the weights of chunks to a target with AVX-512, by the sink for the symbols of their stream.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <cstddef>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/chunk_parts_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/round_sinks_avx512.hpp"
#include "ecq/matmul/trellis_sinks_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Decodes all groups of weight_chunks chunks of equal length to `target`. Returns false if a chunk is damaged or has
/// pairs that no sink takes. Escapes of pairs that are not on a trellis become 0.
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
  return values.raw_bits == 0
             ? advance_in_rounds<pair_rounds<Target, false>>(lookup, cursors, groups, values, cursors, target)
             : advance_in_rounds<pair_rounds<Target, true>>(lookup, cursors, groups, values, cursors, target);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
