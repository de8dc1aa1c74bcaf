#pragma once
/// \file
/// Sinks with AVX-512 for Int8 codes in narrow pairs and Int8 activations. They multiply codes in the registers in
/// which these are decoded, or store a tile of codes in that order.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/chunk_parts_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/integer_dot_avx512.hpp"
#include "ecq/matmul/pair_indices_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Products of a chunk: for each row of W of which it has weights, the sum of (code + 128) * activation.
struct integer_cursor : row_walk {
  std::int32_t* sums = nullptr;  ///< next sum
};

/// Base of sinks of advance_rounds that take pairs of Int8 codes from `Chunks` chunks side by side. Escapes count as
/// their raw bits.
template <bool Raw, std::size_t Chunks>
struct pair_integers {
  static constexpr std::size_t together = Chunks;
  static constexpr bool rounds_apart = true;
  struct group {
    __m512i raw;  ///< for each lane, the raw bits of its eight codes
  };

  /// `first` is the number of the first chunk. `pairs` are the pairs by their numbers in an alias table.
  ECQ_AVX512 pair_integers(std::size_t first, const std::uint8_t (&pairs)[64], const nibble_list& list, unsigned bits,
                           rans_cursor* const* cursors)
      : indices(pairs, bits) {
    alignas(64) std::uint8_t bytes[2][64];
    for (unsigned i = 0; i < 64; ++i) {
      if constexpr (Raw) {  // a permutation of 64 codes reads six bits of an index, which may have fewer
        const unsigned low = i & ((1U << bits) - 1U);
        bytes[0][i] = static_cast<std::uint8_t>((list.symbols[i >> bits & 15U] + low) ^ 0x80U);
      } else {
        bytes[0][i] = list.symbols[pairs[i] % 16U] ^ 0x80U;
        bytes[1][i] = list.symbols[pairs[i] / 16U] ^ 0x80U;
      }
    }
    codes = _mm512_load_si512(bytes[0]);
    if constexpr (!Raw) second_codes = _mm512_load_si512(bytes[1]);
    for (std::size_t c = 0; c < together; ++c) raw[c] = cursors[first + c]->raw;
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void begin(std::size_t c, group& of) const {
    if constexpr (Raw) of.raw = indices.load_raw(raw[c]);
  }

  /// Returns both codes of the pairs of a round, + 128 each, in the bytes of their lanes.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i codes_of(std::size_t round, __m512i numbers, const group& of) const {
    if constexpr (!Raw) {  // two shuffles and a shift, which runs on another port, instead of three shuffles
      const __m512i first = _mm512_permutexvar_epi8(numbers, codes);
      return _mm512_mask_permutexvar_epi8(first, 0xAAAAAAAAAAAAAAAAU, _mm512_slli_epi16(numbers, 8), second_codes);
    } else {
      return _mm512_permutexvar_epi8(indices.of_round(numbers, of.raw, round), codes);
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end_raw(std::size_t c) {
    if constexpr (Raw) {
      prefetch<1>(raw[c], prefetch_distance);
      raw[c] += indices.group_bytes;
    }
  }

  pair_indices indices;
  __m512i codes;  ///< codes + 128 by their indices; without raw bits, the first codes of pairs by the numbers of pairs
  __m512i second_codes;  ///< second codes of pairs; only without raw bits
  const std::byte* raw[together];
};

/// Sink that multiplies codes by activations.
template <bool Raw, std::size_t Chunks>
struct pair_integer_products : pair_integers<Raw, Chunks> {
  using base = pair_integers<Raw, Chunks>;
  using base::together;
  using typename base::group;

  ECQ_AVX512 pair_integer_products(std::size_t first, const std::uint8_t (&pairs)[64], const nibble_list& list,
                                   unsigned bits, rans_cursor* const* cursors, const product_row<std::int8_t>& of_row,
                                   integer_cursor* products)
      : base(first, pairs, list, bits, cursors), row(of_row), to(products + first) {
    for (std::size_t c = 0; c < together; ++c) {
      x[c] = row.x + to[c].column;
      sum[c] = _mm512_setzero_si512();
    }
  }

  /// Returns the number of groups until any chunk comes to the end of a row.
  std::size_t run() const {
    std::size_t least = to[0].groups;
    for (std::size_t c = 1; c < together; ++c) least = (std::min)(least, to[c].groups);
    return least;
  }

  template <unsigned>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group& of) {
    sum[c] = plus_dots(sum[c], this->codes_of(round, numbers, of), _mm512_loadu_si512(x[c] + 64 * round));
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) {
    this->end_raw(c);
    x[c] += pair_group_codes;
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) {
    for (std::size_t c = 0; c < together; ++c) {
      if (!to[c].advance(row, pair_group_codes, count)) continue;
      *to[c].sums++ = _mm512_reduce_add_epi32(sum[c]);
      sum[c] = _mm512_setzero_si512();
      x[c] = row.x + to[c].column;
    }
  }

  /// Stores the sum of the row that has not ended, or 0.
  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const {
    *to[c].sums = _mm512_reduce_add_epi32(sum[c]);
  }

  const product_row<std::int8_t>& row;
  integer_cursor* to;
  const std::int8_t* x[together];
  __m512i sum[together];
};

/// Sink for four chunks side by side. As in round_products, four hide the latency of a step, and their data stays in
/// registers.
template <bool Raw>
using four_integer_products = pair_integer_products<Raw, 4>;

/// Sink for eight chunks side by side, for machines where masks come late (machine_has_late_masks()).
template <bool Raw>
using eight_integer_products = pair_integer_products<Raw, 8>;

/// Sink that stores codes, + 128 each, at the places of their chunks, in the order of place_of_byte_in_rounds().
template <bool Raw>
struct pair_integer_tiles : pair_integers<Raw, weight_chunks> {
  using base = pair_integers<Raw, weight_chunks>;
  using base::together;
  using typename base::group;

  ECQ_AVX512 pair_integer_tiles(std::size_t first, const std::uint8_t (&pairs)[64], const nibble_list& list,
                                unsigned bits, rans_cursor* const* cursors, std::byte* const (&places)[weight_chunks])
      : base(first, pairs, list, bits, cursors) {
    std::copy_n(places + first, together, to);
  }

  static std::size_t run() { return (std::numeric_limits<std::size_t>::max)(); }

  template <unsigned>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group& of) {
    _mm512_storeu_si512(to[c] + 64 * round, this->codes_of(round, numbers, of));
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) {
    this->end_raw(c);
    to[c] += pair_group_codes;
  }

  static void end_run(std::size_t) {}
  static void leave(std::size_t) {}

  std::byte* to[together];
};

/// Decodes all groups of weight_chunks chunks of equal length to sinks made from `arguments`. Returns false if a chunk
/// is damaged.
template <template <bool> class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool advance_integers(const alias_lookup<BucketBits>& lookup, const nibble_list& list,
                                        unsigned raw_bits, rans_cursor* const* cursors, const Arguments&... arguments) {
  const std::size_t groups = cursors[0]->left / group_symbols;
  return raw_bits == 0 ? advance_in_rounds<Sink<false>>(lookup, cursors, groups, lookup.code, list, raw_bits, cursors,
                                                        arguments...)
                       : advance_in_rounds<Sink<true>>(lookup, cursors, groups, lookup.code, list, raw_bits, cursors,
                                                       arguments...);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
