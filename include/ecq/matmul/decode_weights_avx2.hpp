#pragma once
/// \file
/// Decodes the weights of chunks to a target with AVX2, by the sink for the symbols of their stream.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <cstddef>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_bytes_avx2.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/trellis_sinks_avx2.hpp"
#include "ecq/matmul/weight_sinks_avx2.hpp"

namespace ecq::detail::avx2 {

template <unsigned BucketBits, class Sink>
ECQ_AVX2 inline bool advance_weights(const alias_bytes<BucketBits>& entries, rans_cursor* const* cursors,
                                     std::size_t groups, Sink& sink) {
  return advance_groups<chunks_together>(entries, cursors, groups, sink);
}

/// Decodes all groups of `chunks` chunks of equal length to `target`. If `chunks` is odd, the last chunk is decoded
/// twice, so another cursor and another place in `target` must follow it. Returns false if a chunk is damaged or has
/// pairs that no sink takes. Precondition: for a target of bytes, the stream holds codes or pairs, not on a trellis.
template <unsigned BucketBits, class Target>
inline bool decode_weights(const weight_coding& coding, const alias_lookup<BucketBits>& lookup,
                           rans_cursor* const* cursors, std::size_t chunks, const Target& target) {
  const alias_bytes<BucketBits> entries(lookup);
  const std::size_t groups = cursors[0]->left / group_symbols;
  const auto by = [&]<class Sink>(const auto& make) {
    for (std::size_t first = 0; first < chunks; first += chunks_together) {
      Sink sink = make(first);
      if (!advance_weights(entries, cursors + first, groups, sink)) return false;
    }
    return true;
  };
  if constexpr (!takes_bytes<Target>) {
    if (coding.how == fusion::codes && coding.walk) {
      using sink = trellis_weights<Target, BucketBits>;
      return by.template operator()<sink>(
          [&](std::size_t first) { return sink(lookup.code, *coding.walk, first, target); });
    }
    if (coding.how == fusion::bf16) {
      using sink = bf16_weights<Target, BucketBits>;
      return by.template operator()<sink>(
          [&](std::size_t first) { return sink(lookup.code, cursors + first, first, target); });
    }
  }
  if (coding.how == fusion::codes) {
    using sink = code_weights<Target, BucketBits>;
    return by.template operator()<sink>(
        [&](std::size_t first) { return sink(lookup.code, coding.halves, first, target); });
  }
  const pair_values& values = *coding.pairs;
  if (!values.usable) return false;
  const auto pairs = [&]<unsigned RawBits>() {
    if constexpr (!takes_bytes<Target>) {
      if (coding.walk) {
        using sink = trellis_pair_weights<Target, BucketBits, RawBits>;
        return by.template operator()<sink>(
            [&](std::size_t first) { return sink(values, *coding.walk, cursors + first, first, target); });
      }
    }
    using sink = pair_weights<Target, BucketBits, RawBits>;
    return by.template operator()<sink>(
        [&](std::size_t first) { return sink(values, coding.listed, cursors + first, first, target); });
  };
  if (values.raw_bits == 0) return pairs.template operator()<0>();
  if (values.raw_bits == 1) return pairs.template operator()<1>();
  return pairs.template operator()<2>();
}

}  // namespace ecq::detail::avx2

#endif
