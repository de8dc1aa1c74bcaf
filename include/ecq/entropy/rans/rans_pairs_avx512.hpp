#pragma once
/// \file
/// Decodes rANS of narrow pairs of codes with AVX-512 and VBMI2: a step yields 64 codes, to which raw bits are added
/// before they leave the registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Number of codes of a group of pairs.
inline constexpr std::size_t pair_group_codes = std::size_t{2} * group_symbols;

/// Number of chunks of pairs that run side by side. Eight leave no registers for the work on symbols, but fill the
/// time, about 47 cycles on Zen 5, for which a step waits for the one before it: with four, decoding took 1.1 times as
/// long.
inline constexpr std::size_t pair_chunks = 8;

/// Template argument for any number of raw bits from 2 to 7. Other kernels are compiled for 0 and 1 raw bits.
inline constexpr unsigned any_raw_bits = 8;

/// Both codes of each pair by its number in an alias table, and which of them are escapes: bit 0 the first, bit 1 the
/// second.
struct pair_lookup {
  pair_lookup(const std::uint8_t (&pairs)[64], const nibble_list& list) {
    for (std::size_t i = 0; i < 64; ++i) {
      const unsigned first = pairs[i] % 16U;
      const unsigned second = pairs[i] / 16U;
      code[0][i] = list.symbols[first];
      code[1][i] = list.symbols[second];
      if (!list.has_escape()) continue;
      escaped[i] = static_cast<std::uint8_t>((first == nibble_list::escape_value ? 1U : 0U) |
                                             (second == nibble_list::escape_value ? 2U : 0U));
    }
  }

  std::uint8_t code[2][64];
  std::uint8_t escaped[64] = {};
};

/// Order of a group's symbols. The symbols of lane l in two rounds are 16 bits: number l for the first two rounds and
/// 32 + l for the others. This order brings them to where codes unpack within lanes of 128 bits, the lower halves to
/// one register and the upper halves to the next.
struct pair_order {
  ECQ_AVX512 pair_order() {
    std::uint16_t at[2][32];
    for (std::uint16_t i = 0; i < 32; ++i) {
      for (std::uint16_t half = 0; half < 2; ++half) {
        const auto number = static_cast<std::uint16_t>(32 * half + 4 * (i / 8) + i % 4 + 16 * (i % 8 / 4));
        at[half][i] = static_cast<std::uint16_t>(number / 2 + 32 * (number % 2));
      }
    }
    places[0] = _mm512_loadu_si512(at[0]);
    places[1] = _mm512_loadu_si512(at[1]);
  }

  ECQ_AVX512 __m512i operator()(const __m512i (&packed)[2], int half) const {
    return _mm512_permutex2var_epi16(packed[0], places[half], packed[1]);
  }

  __m512i places[2];
};

/// Looks up both codes of each of 64 pairs in of[0] and of[1], by the pairs' numbers, and puts the results in the order
/// of the codes.
ECQ_AVX512 [[gnu::always_inline]] inline void unpack(__m512i pairs, const __m512i (&of)[2], __m512i& first,
                                                     __m512i& second) {
  const __m512i lower = _mm512_permutexvar_epi8(pairs, of[0]);
  const __m512i upper = _mm512_permutexvar_epi8(pairs, of[1]);
  first = _mm512_unpacklo_epi8(lower, upper);
  second = _mm512_unpackhi_epi8(lower, upper);
}

/// Marks of the pairs that have escapes, 64 pairs in each of two registers.
struct pair_marks {
  ECQ_AVX512 pair_marks(__m512i first, __m512i second) : of{first, second} {}
  /// Marks `pairs`. `escaped` is pair_lookup::escaped.
  ECQ_AVX512 pair_marks(const __m512i (&pairs)[2], __m512i escaped)
      : pair_marks(_mm512_permutexvar_epi8(pairs[0], escaped), _mm512_permutexvar_epi8(pairs[1], escaped)) {}

  ECQ_AVX512 bool any() const {
    const __m512i both = _mm512_or_si512(of[0], of[1]);
    return _mm512_test_epi8_mask(both, both) != 0;
  }

  /// Returns which of codes 64 i, ..., 64 i + 63 are escapes.
  ECQ_AVX512 std::uint64_t codes(unsigned i) const {
    const __m512i pairs = of[i / 2];
    const __m512i twice = i % 2 == 0 ? _mm512_unpacklo_epi8(pairs, pairs) : _mm512_unpackhi_epi8(pairs, pairs);
    return _mm512_test_epi8_mask(twice, _mm512_set1_epi16(0x0201));
  }

  __m512i of[2];
};

/// Number of cache lines to prefetch for the raw bits of a group: all of them, or two if their width is not known.
template <unsigned RawBits>
inline constexpr std::size_t raw_lines_of = RawBits == any_raw_bits ? 2 : RawBits;

/// Adds raw bits to bytes that stand for codes.
struct raw_bit_registers {
  ECQ_AVX512 explicit raw_bit_registers(unsigned raw_bits) : bits(raw_bits) {
    const raw_bit_lanes lanes(1, raw_bits, 0);
    byte = _mm512_loadu_si512(lanes.byte);
    shift = _mm512_loadu_si512(lanes.shift);
    mask = _mm512_set1_epi8(static_cast<char>((1U << raw_bits) - 1U));
  }

  /// Returns the number of bytes of the raw bits of a group.
  std::size_t group_bytes() const { return pair_group_codes / 8 * bits; }

  /// Adds the raw bits of a group, at `from`.
  template <unsigned RawBits>
  ECQ_AVX512 [[gnu::always_inline]] inline void add(__m512i (&to)[4], const std::byte* from) const {
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      if constexpr (RawBits == 1) {
        to[i] = _mm512_mask_sub_epi8(to[i], load_le<std::uint64_t>(from + 8 * i), to[i], _mm512_set1_epi8(-1));
      } else if constexpr (RawBits == any_raw_bits) {
        const __m512i read = _mm512_loadu_si512(from + 8 * bits * i);
        const __m512i spread = _mm512_multishift_epi64_epi8(shift, _mm512_permutexvar_epi8(byte, read));
        to[i] = _mm512_add_epi8(to[i], _mm512_and_si512(spread, mask));
      }
    }
  }

  /// Like add<RawBits>(), for code whose loops are not unrolled: there, branches that always go the same way cost
  /// nothing beside the many others.
  ECQ_AVX512 [[gnu::always_inline]] inline void add(__m512i (&to)[4], const std::byte* from) const {
    if (bits == 1) {
      add<1>(to, from);
    } else if (bits != 0) {
      add<any_raw_bits>(to, from);
    }
  }

  std::size_t bits;
  __m512i byte, shift, mask;
};

/// Groups whose escapes are still to be added; so far, these codes are their raw bits alone. Whether a group has
/// escapes is hard to predict, and a misprediction would cost more than the work of a group. So each group is recorded,
/// and its record is overwritten if it has none.
struct escape_backlog {
  static constexpr std::size_t capacity = 32;

  struct group {
    __m512i marks[2];  ///< pair_marks::of
    std::byte* to;     ///< its codes
    std::size_t chunk;
  };

  /// Whether there may be too little room for one more group of every chunk.
  bool full() const { return count > capacity - pair_chunks; }

  ECQ_AVX512 [[gnu::always_inline]] inline void put(const pair_marks& marks, std::byte* to, std::size_t chunk) {
    group& last = groups[count];
    _mm512_store_si512(&last.marks[0], marks.of[0]);
    _mm512_store_si512(&last.marks[1], marks.of[1]);
    last.to = to;
    last.chunk = chunk;
    count += marks.any() ? 1 : 0;
  }

  /// Adds the escapes from `next[chunk]` on, moves `next[chunk]` past them, and forgets the groups. Returns false if
  /// there are too few escapes. Reads up to 64 bytes beyond the escapes. Never inlined: registers are scarce where it
  /// is called.
  ECQ_AVX512 [[gnu::noinline]] bool add(const std::byte* (&next)[pair_chunks],
                                        const std::byte* const (&end)[pair_chunks]) {
    for (std::size_t i = 0; i < count; ++i) {
      const pair_marks marks(groups[i].marks[0], groups[i].marks[1]);
      std::byte* const to = groups[i].to;
      const std::byte* from = next[groups[i].chunk];
      const std::byte* const last = end[groups[i].chunk];
      ECQ_UNROLL
      for (unsigned quarter = 0; quarter < 4; ++quarter) {
        const std::uint64_t which = marks.codes(quarter);
        const __m512i escapes = _mm512_maskz_expand_epi8(which, _mm512_loadu_si512(from));
        from += std::popcount(which);
        if (from > last) return false;
        const __m512i codes = _mm512_loadu_si512(to + 64 * quarter);
        _mm512_storeu_si512(to + 64 * quarter, _mm512_add_epi8(codes, escapes));
      }
      next[groups[i].chunk] = from;
    }
    count = 0;
    return true;
  }

  std::size_t count = 0;
  group groups[capacity];
};

/// Tables that every pair_sink looks up. The constructor is never inlined: it runs once for many groups, and there are
/// many sinks.
struct pair_registers {
  ECQ_AVX512 [[gnu::noinline]] pair_registers(const element_join& join, const std::uint8_t (&numbers)[64])
      : raw_bits(join.bits) {
    const pair_lookup pairs(numbers, *join.pairs);
    code[0] = _mm512_loadu_si512(pairs.code[0]);
    code[1] = _mm512_loadu_si512(pairs.code[1]);
    escaped = _mm512_loadu_si512(pairs.escaped);
  }

  raw_bit_registers raw_bits;
  pair_order order;
  __m512i code[2];
  __m512i escaped;
};

/// A sink of advance_groups() whose symbols are pairs. It writes their codes to memory. Reads at most 64 bytes beyond
/// raw bits and escapes. Chunks from number `count` on are copies of the one before, whose escapes are added once.
template <unsigned RawBits>
struct pair_sink : pair_registers {
  static constexpr bool rolls = false;

  ECQ_AVX512 pair_sink(const element_join& join, const std::uint8_t (&numbers)[64], rans_cursor* const* cursors,
                       std::size_t count, std::size_t groups)
      : pair_registers(join, numbers), escaping(join.pairs->has_escape() ? count : 0), symbols(groups * group_symbols) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < pair_chunks; ++c) {
      raw[c] = cursors[c]->raw;
      escape[c] = cursors[c]->escape;
      escape_end[c] = cursors[c]->escape_end;
      to[c] = cursors[c]->element;
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    __m512i half[2];
    __m512i codes[4];
    ECQ_UNROLL
    for (int i = 0; i < 2; ++i) {
      half[i] = order(packed, i);
      unpack(half[i], code, codes[2 * i], codes[2 * i + 1]);
    }
    prefetch<raw_lines_of<RawBits>>(raw[c], 2 * prefetch_distance);
    prefetch<4>(to[c], prefetch_distance);
    raw_bits.template add<RawBits>(codes, raw[c]);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) _mm512_storeu_si512(to[c] + 64 * i, codes[i]);
    if (c < escaping) backlog.put(pair_marks(half, escaped), to[c], c);
    if (c + 1 == pair_chunks && backlog.full()) [[unlikely]] {  // copies have written their codes again
      if (!backlog.add(escape, escape_end)) return false;
    }
    raw[c] += raw_bits.group_bytes();
    to[c] += pair_group_codes;
    return true;
  }

  ECQ_AVX512 bool end() { return backlog.add(escape, escape_end); }

  void leave(std::size_t c, rans_cursor& cursor) const {
    cursor.out += symbols;
    cursor.raw = raw[c];
    cursor.escape = escape[c];
    cursor.element = to[c];
  }

  std::size_t escaping;  ///< chunks that may have escapes: the first ones
  std::size_t symbols;
  const std::byte* raw[pair_chunks];
  const std::byte* escape[pair_chunks];
  const std::byte* escape_end[pair_chunks];
  std::byte* to[pair_chunks];
  escape_backlog backlog;
};

/// Calls advance_groups() with a pair_sink.
template <unsigned RawBits, unsigned BucketBits>
ECQ_AVX512 inline bool advance_pairs(const alias_lookup<BucketBits>& table, const element_join& join,
                                     rans_cursor* const* cursors, std::size_t count, std::size_t groups) {
  pair_sink<RawBits> sink(join, table.code, cursors, count, groups);
  return advance_groups<pair_chunks>(table, cursors, groups, sink);
}

/// Decodes `groups` whole groups of `count` chunks of pairs, 1 .. pair_chunks, side by side. The cursors after them are
/// copies of the last one. If a chunk runs out of words or escapes, returns false and moves no cursor.
template <unsigned BucketBits>
inline bool advance_pairs(const alias_lookup<BucketBits>& table, const element_join& join, rans_cursor* const* cursors,
                          std::size_t count, std::size_t groups) {
  if (join.bits == 0) return advance_pairs<0>(table, join, cursors, count, groups);
  if (join.bits == 1) return advance_pairs<1>(table, join, cursors, count, groups);
  return advance_pairs<any_raw_bits>(table, join, cursors, count, groups);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
