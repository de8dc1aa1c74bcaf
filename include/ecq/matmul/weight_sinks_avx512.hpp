#pragma once
/// \file
/// Parts of sinks of advance_groups (entropy/rans/alias_groups_avx512.hpp) that take narrow pairs a group at a time, in
/// the order of place_met() (matmul/fusion.hpp): the sinks of trellis_sinks_avx512.hpp.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

// A Target has a type `group` for the group that a chunk is at, made from the target and the number of the chunk.
// group.take(i, halves) takes weights 32 i, ..., 32 i + 31 in the order of fusion.hpp. Afterwards, group.escape(at,
// half) takes weight number `at` in the order of the columns, which has been 0 so far. target.advance<Weights>(chunk,
// group) ends a group. Target::together chunks are decoded side by side.

/// Returns the BF16 value of an escape, code number `at` of a group whose raw bits are at `raw`.
inline std::uint16_t half_of_escape(const pair_values& values, const std::byte* raw, unsigned at, std::byte escape) {
  return values.all_halves[(std::to_integer<unsigned>(escape) + raw_bits_at(raw, values.raw_bits, at)) % 256U];
}

/// Hands the escapes of a group, which `marks` names, to `group` and moves `next` past them, one at a time: most groups
/// have one or two. Returns false if there are too few.
template <class Group>
ECQ_AVX512 [[gnu::always_inline]] inline bool take_escapes(const pair_marks& marks, const pair_values& values,
                                                           const std::byte* raw, const std::byte*& next,
                                                           const std::byte* end, Group& group) {
  ECQ_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    for (std::uint64_t left = marks.codes(i); left != 0; left &= left - 1) {
      if (next == end) return false;
      const unsigned at = 64 * i + static_cast<unsigned>(std::countr_zero(left));
      group.escape(at, half_of_escape(values, raw, at, *next++));
    }
  }
  return true;
}

/// Reader that turns narrow pairs of codes into the indices of their values. It reads as far as pair_sink.
struct pair_reader {
  ECQ_AVX512 pair_reader(const pair_values& of_pairs, rans_cursor* const* cursors)
      : values(of_pairs),
        escaping(of_pairs.escaping),
        raw_bits(of_pairs.raw_bits),
        index{_mm512_load_si512(of_pairs.index[0]), _mm512_load_si512(of_pairs.index[1])},
        escaped(_mm512_load_si512(of_pairs.escaped)) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < weight_chunks; ++c) {
      raw[c] = cursors[c]->raw;
      escape[c] = cursors[c]->escape;
      escape_end[c] = cursors[c]->escape_end;
    }
  }

  /// Sets indices[i] to the indices of codes 64 i, ..., 64 i + 63, and `pairs` to the argument of pair_marks.
  ECQ_AVX512 [[gnu::always_inline]] inline void read(std::size_t c, const __m512i (&packed)[2], __m512i (&pairs)[2],
                                                     __m512i (&indices)[4]) const {
    pairs[0] = order(packed, 0);
    pairs[1] = order(packed, 1);
    prefetch<raw_lines_of<any_raw_bits>>(raw[c], 2 * prefetch_distance);
    ECQ_UNROLL
    for (int i = 0; i < 2; ++i) unpack(pairs[i], index, indices[2 * i], indices[2 * i + 1]);
    raw_bits.add(indices, raw[c]);
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void advance(std::size_t c) { raw[c] += raw_bits.group_bytes(); }

  const pair_values& values;
  bool escaping;
  raw_bit_registers raw_bits;
  pair_order order;
  __m512i index[2];
  __m512i escaped;
  const std::byte* raw[weight_chunks];
  const std::byte* escape[weight_chunks];
  const std::byte* escape_end[weight_chunks];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
