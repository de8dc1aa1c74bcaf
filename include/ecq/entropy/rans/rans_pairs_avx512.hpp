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
#include "ecq/base/prefetch_avx512.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Codes of a group of pairs.
inline constexpr std::size_t pair_group_codes = std::size_t{2} * group_symbols;

/// Raw bits that the kernels know when they are compiled: 0, 1, or any number from 2 to 7.
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

/// Two steps' symbols of lane l are 16 bits, number l of the first two steps and 32 + l of the others. This is the
/// order in which codes unpack within lanes of 128 bits, the lower halves to one register and the upper halves to the
/// next.
struct pair_order {
  pair_order() {
    for (std::uint16_t i = 0; i < 32; ++i) {
      for (std::uint16_t half = 0; half < 2; ++half) {
        const auto number = static_cast<std::uint16_t>(32 * half + 4 * (i / 8) + i % 4 + 16 * (i % 8 / 4));
        place[half][i] = static_cast<std::uint16_t>(number / 2 + 32 * (number % 2));
      }
    }
  }

  std::uint16_t place[2][32];
};

/// Adds escapes to the codes of a group at `to` that `marks` name, 64 pairs each in the order of unpacking: so far
/// these codes are their raw bits. Moves cursor->escape past them; returns false if there are too few. Reads up to 64
/// bytes beyond the escapes. Never inlined: it seldom runs, and registers are scarce where it does.
ECQ_AVX512 [[gnu::noinline]] inline bool add_escapes(__m512i first, __m512i second, std::byte* to,
                                                     const std::byte*& next, const std::byte* end) {
  const __m512i bits = _mm512_set1_epi16(0x0201);
  const __m512i twice[4] = {_mm512_unpacklo_epi8(first, first), _mm512_unpackhi_epi8(first, first),
                            _mm512_unpacklo_epi8(second, second), _mm512_unpackhi_epi8(second, second)};
  ECQ_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __mmask64 which = _mm512_test_epi8_mask(twice[i], bits);
    const auto taken = std::popcount(std::uint64_t{which});
    if (taken > end - next) return false;
    const __m512i escapes = _mm512_maskz_expand_epi8(which, _mm512_loadu_si512(next));
    _mm512_storeu_si512(to + 64 * i, _mm512_add_epi8(_mm512_loadu_si512(to + 64 * i), escapes));
    next += taken;
  }
  return true;
}

/// Decodes `groups` whole groups of pairs of `Chunks` chunks side by side. If one of them runs out of words or escapes,
/// returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words, and 64 beyond raw bits
/// and escapes.
template <std::size_t Chunks, unsigned BucketBits, unsigned RawBits>
ECQ_AVX512 inline bool advance_pairs(const alias_lookup<BucketBits>& lookup, const element_join& join,
                                     rans_cursor* const* cursors, std::size_t groups) {
  const __m512i even = every(0, 2);
  const __m512i odd = every(1, 2);
  __m512i high[Chunks];  // halves of the states, lane by lane
  __m512i low[Chunks];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
  const std::byte* raw[Chunks];
  const std::byte* escape[Chunks];
  std::byte* to[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i first = _mm512_loadu_si512(cursors[c]->state);
    const __m512i second = _mm512_loadu_si512(cursors[c]->state + 16);
    low[c] = _mm512_permutex2var_epi16(first, even, second);
    high[c] = _mm512_permutex2var_epi16(first, odd, second);
    word[c] = cursors[c]->word;
    end[c] = cursors[c]->end;
    raw[c] = cursors[c]->raw;
    escape[c] = cursors[c]->escape;
    to[c] = cursors[c]->element;
  }
  const alias_registers<BucketBits> table(lookup);
  const pair_lookup pairs(lookup.code, *join.pairs);
  const bool escaping = join.pairs->has_escape();
  const __m512i code0 = _mm512_loadu_si512(pairs.code[0]);
  const __m512i code1 = _mm512_loadu_si512(pairs.code[1]);
  const __m512i escaped = _mm512_loadu_si512(pairs.escaped);
  const __m512i low_byte = _mm512_set1_epi16(255);
  const __m512i ones = _mm512_set1_epi8(-1);
  const pair_order order;
  const __m512i order0 = _mm512_loadu_si512(order.place[0]);
  const __m512i order1 = _mm512_loadu_si512(order.place[1]);
  const unsigned bits = join.bits;
  const raw_bit_lanes lanes(1, RawBits == any_raw_bits ? bits : 0, 0);
  const __m512i raw_byte = _mm512_loadu_si512(lanes.byte);
  const __m512i raw_shift = _mm512_loadu_si512(lanes.shift);
  const __m512i raw_mask = _mm512_set1_epi8(static_cast<char>((1U << bits) - 1U));
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i symbols[Chunks][2];  // symbols of two rounds each: the later round's in the high bytes
    ECQ_UNROLL
    for (int two = 0; two < 2; ++two) {
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) symbols[c][two] = table.step(high[c], low[c], word[c]);
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        const __m512i later = table.step(high[c], low[c], word[c]);
        symbols[c][two] =  // (earlier & 255) | (later << 8)
            _mm512_ternarylogic_epi32(symbols[c][two], low_byte, _mm512_slli_epi16(later, 8), 0xEA);
      }
      // Two rounds take 64 words, 128 bytes, at most.
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > end[c];
      if (overrun) return false;
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      const __m512i half[2] = {_mm512_permutex2var_epi16(symbols[c][0], order0, symbols[c][1]),
                               _mm512_permutex2var_epi16(symbols[c][0], order1, symbols[c][1])};
      __m512i codes[4];
      ECQ_UNROLL
      for (int i = 0; i < 2; ++i) {
        const __m512i firsts = _mm512_permutexvar_epi8(half[i], code0);
        const __m512i seconds = _mm512_permutexvar_epi8(half[i], code1);
        codes[2 * i] = _mm512_unpacklo_epi8(firsts, seconds);
        codes[2 * i + 1] = _mm512_unpackhi_epi8(firsts, seconds);
      }
      prefetch<RawBits == 0 ? 0 : RawBits == 1 ? 1 : 2>(raw[c], 1024);
      prefetch<2>(word[c], 512);
      prefetch<4>(to[c], 512);
      ECQ_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        if constexpr (RawBits == 1) {
          codes[i] = _mm512_mask_sub_epi8(codes[i], load_le<std::uint64_t>(raw[c] + 8 * i), codes[i], ones);
        } else if constexpr (RawBits == any_raw_bits) {
          const __m512i read = _mm512_loadu_si512(raw[c] + std::size_t{8} * bits * i);
          const __m512i spread = _mm512_multishift_epi64_epi8(raw_shift, _mm512_permutexvar_epi8(raw_byte, read));
          codes[i] = _mm512_add_epi8(codes[i], _mm512_and_si512(spread, raw_mask));
        }
        _mm512_storeu_si512(to[c] + 64 * i, codes[i]);
      }
      if (escaping) {
        const __m512i marks[2] = {_mm512_permutexvar_epi8(half[0], escaped), _mm512_permutexvar_epi8(half[1], escaped)};
        const __m512i any = _mm512_or_si512(marks[0], marks[1]);
        if (_mm512_test_epi8_mask(any, any) != 0) [[unlikely]] {
          if (!add_escapes(marks[0], marks[1], to[c], escape[c], cursors[c]->escape_end)) return false;
        }
      }
      raw[c] += std::size_t{32} * (RawBits == any_raw_bits ? bits : RawBits);
      to[c] += pair_group_codes;
    }
  }
  const __m512i first_half = interleaved(0);
  const __m512i second_half = interleaved(16);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
    cursors[c]->word = word[c];
    cursors[c]->out += groups * group_symbols;
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    cursors[c]->raw = raw[c];
    cursors[c]->escape = escape[c];
    cursors[c]->element = to[c];
  }
  return true;
}

/// advance_pairs for the number of raw bits that `join` says.
template <std::size_t Chunks, unsigned BucketBits>
inline bool advance_pairs(const alias_lookup<BucketBits>& table, const element_join& join, rans_cursor* const* cursors,
                          std::size_t groups) {
  if (join.bits == 0) return advance_pairs<Chunks, BucketBits, 0>(table, join, cursors, groups);
  if (join.bits == 1) return advance_pairs<Chunks, BucketBits, 1>(table, join, cursors, groups);
  return advance_pairs<Chunks, BucketBits, any_raw_bits>(table, join, cursors, groups);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
