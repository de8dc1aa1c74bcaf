#pragma once
/// \file
/// Decodes tANS and Huffman with AVX-512 and VBMI2. A chunk's 32 stacks are two registers of 16-bit halves, entries are
/// looked up with table_lookup_avx512.hpp, and several chunks run side by side to hide latency.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Finds the code words of `lanes` in the cascade and pops them from the lanes' stacks. `halves` are the low and the
/// high halves of the stacks, and the entries, which then hold the decoded bytes and 0 bits left to take.
[[gnu::always_inline]] ECQ_AVX512 inline void take_longer(const huffman_lookup& table, std::uint32_t lanes,
                                                          __m512i (&halves)[3]) {
  std::uint16_t each[3][lane_count];
  std::memcpy(each, halves, sizeof each);
  for (; lanes != 0; lanes &= lanes - 1) {
    const std::uint32_t lane = _tzcnt_u32(lanes);
    std::uint32_t stack = each[0][lane] | std::uint32_t{each[1][lane]} << 16;
    const unsigned entry = table.find_longer(stack);
    stack >>= entry & 0xFFU;
    each[0][lane] = static_cast<std::uint16_t>(stack);
    each[1][lane] = static_cast<std::uint16_t>(stack >> 16);
    each[2][lane] = static_cast<std::uint16_t>(entry & 0xFF00U);
  }
  std::memcpy(halves, each, sizeof each);
}

/// Returns the entries of a chunk's next symbols, given its states and the low halves of its stacks.
template <class Lookups, class Table>
ECQ_AVX512 inline looked_up look_up_next(const Table& table, __m512i state, __m512i low, __m512i index_mask) {
  if constexpr (Table::by_state) {
    return Lookups::template entries<4>(table.entries, state);
  } else {
    return Lookups::template entries<2>(table.entries, _mm512_and_si512(low, index_mask));
  }
}

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, returns false and
/// moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
template <class Lookups, std::size_t Chunks, class Table>
ECQ_AVX512 inline bool bit_stacks_advance(const Table& table, bit_stack_cursor* const* cursors, std::size_t groups) {
  const __m512i even = every(0, 2);
  const __m512i odd = every(1, 2);
  const __m512i first_half = interleaved(0);
  const __m512i second_half = interleaved(16);
  __m512i high[Chunks];  // halves of the stacks, lane by lane
  __m512i low[Chunks];
  __m512i state[Chunks];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
  std::uint8_t* out[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i first = _mm512_loadu_si512(cursors[c]->stack);
    const __m512i second = _mm512_loadu_si512(cursors[c]->stack + 16);
    low[c] = _mm512_permutex2var_epi16(first, even, second);
    high[c] = _mm512_permutex2var_epi16(first, odd, second);
    state[c] = _mm512_permutex2var_epi16(_mm512_loadu_si512(cursors[c]->state), even,
                                         _mm512_loadu_si512(cursors[c]->state + 16));
    word[c] = cursors[c]->word;
    end[c] = cursors[c]->end;
    out[c] = cursors[c]->out;
  }
  const __m512i zero = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi16(-1);
  const __m512i low_byte = _mm512_set1_epi16(0x00FF);
  __m512i index_mask = zero;
  if constexpr (!Table::by_state) index_mask = _mm512_set1_epi16(static_cast<std::int16_t>(table.index_mask));
  // Each chunk's entries are loaded before the preceding chunk takes its words, so that more loads are in flight.
  looked_up upcoming = look_up_next<Lookups>(table, state[0], low[0], index_mask);
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i codes[Chunks][2];  // codes of two rounds each: the later round's in the high bytes
    // Not unrolled: that would be no faster and would take twice as long to compile.
    for (int pair = 0; pair < 2; ++pair) {
      __m512i both[Chunks];
      ECQ_UNROLL
      for (int later = 0; later < 2; ++later) {
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          // The number of bits to take, of which shifts use only the low four bits, and above it the code.
          __m512i entry;
          const looked_up found = upcoming;
          if constexpr (Chunks > 1) {
            const std::size_t next = (c + 1) % Chunks;
            upcoming = look_up_next<Lookups>(table, state[next], low[next], index_mask);
            if constexpr (!Table::by_state) compute_first(upcoming.first, upcoming.second, low[c], high[c]);
          }
          if constexpr (Table::by_state) {
            entry = Lookups::high_halves(found);
            const __m512i base = Lookups::low_halves(found);
            const __m512i kept = _mm512_shldv_epi16(ones, zero, entry);  // base | (low & ~kept)
            state[c] = _mm512_ternarylogic_epi32(base, kept, low[c], 0xF2);
          } else {
            entry = Lookups::low_halves(found);
            const __mmask32 longer = _mm512_testn_epi16_mask(entry, low_byte);
            if (longer != 0) [[unlikely]] {
              __m512i halves[3] = {low[c], high[c], entry};
              take_longer(table, longer, halves);
              low[c] = halves[0];
              high[c] = halves[1];
              entry = halves[2];
            }
          }
          const __m512i next_low = _mm512_shrdv_epi16(low[c], high[c], entry);
          const __m512i next_high = _mm512_shrdv_epi16(high[c], zero, entry);
          const __mmask32 due = _mm512_testn_epi16_mask(next_high, next_high);
          high[c] = _mm512_mask_mov_epi16(next_high, due, next_low);
          low[c] = _mm512_mask_expand_epi16(next_low, due, _mm512_loadu_si512(word[c]));
          word[c] += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(due));
          if constexpr (Chunks == 1) upcoming = look_up_next<Lookups>(table, state[c], low[c], index_mask);
          if (later == 0) {
            both[c] = _mm512_srli_epi16(entry, 8);
          } else {  // earlier | (entry & 0xFF00)
            both[c] = _mm512_ternarylogic_epi32(both[c], low_byte, entry, 0xF2);
          }
        }
      }
      // Two rounds take 64 words, 128 bytes, at most.
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > end[c];
      if (overrun) return false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) codes[c][pair] = both[c];
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      _mm512_storeu_si512(out[c], _mm512_permutex2var_epi16(codes[c][0], first_half, codes[c][1]));
      _mm512_storeu_si512(out[c] + 64, _mm512_permutex2var_epi16(codes[c][0], second_half, codes[c][1]));
      prefetch<2>(word[c], prefetch_distance);
      out[c] += group_symbols;
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->stack, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
    _mm512_storeu_si512(cursors[c]->stack + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
    _mm512_storeu_si512(cursors[c]->state, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(state[c])));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(state[c], 1)));
    cursors[c]->word = word[c];
    cursors[c]->out = out[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
  }
  return true;
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
