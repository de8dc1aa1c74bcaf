#pragma once
/// \file
/// Sinks of advance_groups (entropy/rans/alias_groups_avx512.hpp) in which decoded weights become BF16 values, 32 to a
/// register in the order of matmul/fusion.hpp. A target takes them from there.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch_avx512.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

// A Target has a type `group`, made from the target and the number of a chunk, for the group that this chunk is at:
// group.take(i, halves) takes weights 32 i, ..., 32 i + 31 in the order of fusion.hpp, and group.escape(at, half)
// afterwards weight number `at` in the order of the columns, so far 0. target.advance<Weights>(chunk, group) ends a
// group. Target::together chunks are decoded side by side; with Target::meets_rounds, pairs that are on no trellis are
// taken in the order of place_in_rounds().

/// Takes codes, each a symbol.
template <class Target, unsigned BucketBits>
struct code_weights {
  static constexpr bool packs = false;
  static constexpr bool rolls = true;
  static constexpr std::size_t together = Target::together;

  /// `halves` are the BF16 values of all codes.
  ECQ_AVX512 code_weights(const std::uint8_t (&codes)[64], const std::uint16_t* halves, const Target& to) : target(to) {
    alignas(64) std::uint16_t of_numbers[64];
    for (std::size_t i = 0; i < 64; ++i) of_numbers[i] = halves[codes[i]];
    values[0] = _mm512_load_si512(of_numbers);
    values[1] = _mm512_load_si512(of_numbers + 32);
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&numbers)[rounds_per_group]) {
    typename Target::group group(target, c);
    ECQ_UNROLL
    for (std::size_t i = 0; i < rounds_per_group; ++i) {
      group.take(i, look_up<BucketBits>(numbers[i], values[0], values[1]));
    }
    target.template advance<group_symbols>(c, group);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  Target target;
  __m512i values[2];
};

/// Takes exponents of BF16.
template <class Target>
struct bf16_weights {
  static constexpr bool packs = true;
  static constexpr bool rolls = true;
  static constexpr std::size_t together = Target::together;

  ECQ_AVX512 bf16_weights(const std::uint8_t (&codes)[64], rans_cursor* const* cursors, const Target& to)
      : target(to), writer({}), code(_mm512_loadu_si512(codes)) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < weight_chunks; ++c) raw[c] = cursors[c]->raw;
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    typename Target::group group(target, c);
    prefetch<bf16_writer::raw_lines>(raw[c], 2 * prefetch_distance);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i exponents = _mm512_permutexvar_epi8(in_order(packed, i), code);
      const __m512i low = _mm512_loadu_si512(raw[c] + 64 * i);
      ECQ_UNROLL
      for (std::size_t half = 0; half < 2; ++half) {
        group.take(2 * i + half, writer.joined(exponents, low, half));
      }
    }
    raw[c] += group_symbols;
    target.template advance<group_symbols>(c, group);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  Target target;
  bf16_writer writer;
  symbols_in_order in_order;
  __m512i code;
  const std::byte* raw[weight_chunks];
};

/// The BF16 value of an escape, code number `at` of a group whose raw bits are at `raw`.
inline std::uint16_t half_of_escape(const pair_values& values, const std::byte* raw, unsigned at, std::byte escape) {
  const unsigned bits = values.raw_bits;
  const unsigned low = std::to_integer<unsigned>(raw[at * bits / 8]) >> (at * bits % 8) & ((1U << bits) - 1U);
  return values.all_halves[(std::to_integer<unsigned>(escape) + low) % 256U];
}

/// Hands the escapes of a group, those that `marks` name, to `group` and moves `next` past them. Returns false if there
/// are too few. Most groups have one or two, hence one at a time.
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

/// Where narrow pairs of codes become the indices of their values. Reads as far as pair_sink.
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

  /// Sets indices[i] to those of codes 64 i, ..., 64 i + 63, and `pairs` to what pair_marks needs.
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

/// Takes narrow pairs of codes.
template <class Target>
struct pair_weights {
  static constexpr bool packs = true;
  static constexpr bool rolls = true;
  static constexpr std::size_t together = Target::together;

  ECQ_AVX512 pair_weights(const pair_values& values, rans_cursor* const* cursors, const Target& to)
      : target(to), from(values, cursors), halves(_mm512_load_si512(values.halves)) {}

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    __m512i pairs[2];
    __m512i indices[4];
    from.read(c, packed, pairs, indices);
    typename Target::group group(target, c);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      // A permutation of 32 values reads five bits of an index, so the byte above it does not matter.
      group.take(2 * i, _mm512_permutexvar_epi16(indices[i], halves));
      group.take(2 * i + 1, _mm512_permutexvar_epi16(_mm512_srli_epi16(indices[i], 8), halves));
    }
    if (from.escaping) {
      const pair_marks marks(pairs, from.escaped);
      if (marks.any() && !take_escapes(marks, from.values, from.raw[c], from.escape[c], from.escape_end[c], group)) {
        return false;
      }
    }
    from.advance(c);
    target.template advance<pair_group_codes>(c, group);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = from.escape[c]; }

  Target target;
  pair_reader from;
  __m512i halves;
};

/// Takes narrow pairs of codes round by round, in the order of place_in_rounds(): symbols are looked up where they are,
/// and need neither be packed nor brought into the order of the columns.
template <class Target, unsigned BucketBits>
struct round_pair_weights {
  static constexpr bool packs = false;
  static constexpr bool rolls = true;
  static constexpr std::size_t together = Target::together;

  ECQ_AVX512 round_pair_weights(const pair_values& of_pairs, rans_cursor* const* cursors, const Target& to)
      : target(to),
        values(of_pairs),
        halves(_mm512_load_si512(of_pairs.halves)),
        raw_mask(_mm512_set1_epi8(static_cast<char>((1U << of_pairs.raw_bits) - 1U))) {
    alignas(64) std::uint16_t of_numbers[64];
    for (std::size_t i = 0; i < 64; ++i) {
      const unsigned escapes = (of_pairs.escaped[i] & 1U) << 7 | (of_pairs.escaped[i] & 2U) << 14;
      const unsigned both = of_pairs.index[0][i] | unsigned{of_pairs.index[1][i]} << 8;
      of_numbers[i] = static_cast<std::uint16_t>(both | escapes);
    }
    index_of[0] = _mm512_load_si512(of_numbers);
    index_of[1] = _mm512_load_si512(of_numbers + 32);
    for (unsigned i = 0; i < rounds_per_group; ++i) {
      alignas(64) std::uint8_t first_bit[64];  // of a code's raw bits, among those of four lanes
      for (unsigned byte = 0; byte < 64; ++byte) {
        first_bit[byte] = static_cast<std::uint8_t>(16 * (byte / 2 % 4) + of_pairs.raw_bits * (2 * i + byte % 2));
      }
      raw_place[i] = _mm512_load_si512(first_bit);
    }
    for (std::size_t c = 0; c < weight_chunks; ++c) {
      raw[c] = cursors[c]->raw;
      escape[c] = cursors[c]->escape;
      escape_end[c] = cursors[c]->escape_end;
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&numbers)[rounds_per_group]) {
    // A lane of 16 bits has the indices of both codes of a pair, whose highest bits say that they are escapes.
    __m512i indices[rounds_per_group];
    ECQ_UNROLL
    for (std::size_t i = 0; i < rounds_per_group; ++i) {
      indices[i] = look_up<BucketBits>(numbers[i], index_of[0], index_of[1]);
    }
    const __m512i any = _mm512_or_si512(_mm512_or_si512(indices[0], indices[1]),  //
                                        _mm512_or_si512(indices[2], indices[3]));
    prefetch<1>(raw[c], 2 * prefetch_distance);
    if (values.raw_bits != 0) add_raw_bits(raw[c], indices);
    typename Target::group group(target, c);
    ECQ_UNROLL
    for (std::size_t i = 0; i < rounds_per_group; ++i) {
      // A permutation of 32 values reads five bits of an index, so those above do not matter.
      group.take(2 * i, _mm512_permutexvar_epi16(indices[i], halves));
      group.take(2 * i + 1, _mm512_permutexvar_epi16(_mm512_srli_epi16(indices[i], 8), halves));
    }
    if (_mm512_movepi8_mask(any) != 0 && !take_escapes(c, indices, group)) return false;
    raw[c] += pair_group_codes / 8 * values.raw_bits;
    target.template advance<pair_group_codes>(c, group);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = escape[c]; }

  Target target;
  const pair_values& values;
  __m512i halves;
  __m512i raw_mask;
  __m512i index_of[2];
  __m512i raw_place[rounds_per_group];
  const std::byte* raw[weight_chunks];
  const std::byte* escape[weight_chunks];
  const std::byte* escape_end[weight_chunks];

 private:
  /// Adds raw bits at `from`, one or two of each code: eight codes of a lane follow each other.
  ECQ_AVX512 [[gnu::always_inline]] inline void add_raw_bits(const std::byte* from,
                                                             __m512i (&indices)[rounds_per_group]) const {
    const __m512i bits = values.raw_bits == 1
                             ? _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))
                             : _mm512_loadu_si512(from);
    ECQ_UNROLL
    for (std::size_t i = 0; i < rounds_per_group; ++i) {  // index | (raw bits & mask)
      indices[i] =
          _mm512_ternarylogic_epi32(indices[i], _mm512_multishift_epi64_epi8(raw_place[i], bits), raw_mask, 0xF8);
    }
  }

  /// take_escapes() above, by indices.
  template <class Group>
  ECQ_AVX512 [[gnu::always_inline]] inline bool take_escapes(std::size_t c, const __m512i (&indices)[rounds_per_group],
                                                             Group& group) {
    std::uint64_t escaped[rounds_per_group];
    for (std::size_t i = 0; i < rounds_per_group; ++i) escaped[i] = _mm512_movepi8_mask(indices[i]);
    for (std::uint64_t left = escaped[0] | escaped[1] | escaped[2] | escaped[3]; left != 0;) {
      const unsigned lane = static_cast<unsigned>(std::countr_zero(left)) / 2;
      left &= ~(std::uint64_t{3} << 2 * lane);
      for (unsigned code = 0; code < 8; ++code) {
        if ((escaped[code / 2] >> (2 * lane + code % 2) & 1U) == 0) continue;
        if (escape[c] == escape_end[c]) return false;
        const unsigned at = 8 * lane + code;
        group.escape(at, half_of_escape(values, raw[c], at, *escape[c]++));
      }
    }
    return true;
  }
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
