#pragma once
/// \file
/// Decodes rANS with AVX-512 and VBMI2. A chunk's 32 states are two registers of 16-bit halves, its alias table stays
/// in registers, and several chunks run side by side to hide latency.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Numbers of chunks that run side by side. A step is a chain of some 45 cycles, and chunks fill the gaps in each
/// other's chains. Fewer than 4 chunks cost as much as 4.
inline constexpr std::size_t few_chunks = 4;
inline constexpr std::size_t many_chunks = 8;
static_assert(pair_chunks == many_chunks, "rans_decode.hpp hands out as many");

/// A sink of advance_groups() that writes symbols to memory by a `Writer`.
template <class Writer, std::size_t Chunks>
struct element_sink {
  static constexpr bool rolls = false;

  ECQ_AVX512 element_sink(const element_join& join, const std::uint8_t* codes, rans_cursor* const* cursors,
                          std::size_t groups)
      : writer(join), code(writer.place(_mm512_loadu_si512(codes))), symbols(groups * group_symbols) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      raw[c] = cursors[c]->raw;
      to[c] = Writer::joins ? cursors[c]->element : reinterpret_cast<std::byte*>(cursors[c]->out);
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    prefetch<Writer::raw_lines>(raw[c], 2 * prefetch_distance);
    prefetch<2 * Writer::width>(to[c], prefetch_distance);
    writer.write(_mm512_permutexvar_epi8(in_order(packed, 0), code), raw[c], to[c]);
    writer.write(_mm512_permutexvar_epi8(in_order(packed, 1), code), raw[c], to[c]);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const {
    cursor.out += symbols;
    if constexpr (Writer::joins) {
      cursor.raw = raw[c];
      cursor.element = to[c];
    }
  }

  Writer writer;
  __m512i code;
  symbols_in_order in_order;
  std::size_t symbols;
  const std::byte* raw[Chunks];
  std::byte* to[Chunks];
};

/// Calls advance_groups() with an element_sink.
template <class Writer, std::size_t Chunks, unsigned BucketBits>
ECQ_AVX512 inline bool advance_together(const alias_lookup<BucketBits>& table, const element_join& join,
                                        rans_cursor* const* cursors, std::size_t groups) {
  element_sink<Writer, Chunks> sink(join, table.code, cursors, groups);
  return advance_groups<Chunks>(table, cursors, groups, sink);
}

/// A direct table of up to 2^12 slots: frequency (bits 20..31), rank (8..19) and decoded byte of each slot.
struct direct_lookup {
  static constexpr unsigned max_scale_bits = 12;

  explicit direct_lookup(const rans_slots_view& table) : scale_bits(table.scale_bits) {
    for (std::uint32_t slot = 0; slot < 1U << scale_bits; ++slot) {
      const std::uint64_t entry = table.entries[table.entry_of_slot[slot]];
      const std::uint32_t rank = (slot + static_cast<std::uint32_t>(entry >> 16)) & 0xFFFU;
      entries[slot] = static_cast<std::uint32_t>(entry << 20) | (rank << 8) | static_cast<std::uint32_t>(entry >> 32);
    }
  }

  unsigned scale_bits;
  std::uint32_t entries[1U << max_scale_bits];
};

/// Decodes `groups` whole groups of `Chunks` chunks side by side, by a direct table. If one of them runs out of words,
/// returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words. Each chunk has its
/// even lanes in one register and its odd lanes in another, so that expanding words into the 16-bit halves of a
/// register brings each word to its lane.
template <class Lookups, std::size_t Chunks>
ECQ_AVX512 inline bool advance_together(const direct_lookup& table, rans_cursor* const* cursors, std::size_t groups) {
  std::uint32_t numbers[4][16];
  for (std::uint32_t i = 0; i < 16; ++i) {
    numbers[0][i] = 2 * i;
    numbers[1][i] = 2 * i + 1;
    numbers[2][i] = i / 2 + i % 2 * 16;
    numbers[3][i] = i / 2 + i % 2 * 16 + 8;
  }
  const __m512i even = _mm512_loadu_si512(numbers[0]);
  const __m512i odd = _mm512_loadu_si512(numbers[1]);
  const __m512i first_half = _mm512_loadu_si512(numbers[2]);
  const __m512i second_half = _mm512_loadu_si512(numbers[3]);
  __m512i state[Chunks][2];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
  std::uint8_t* out[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i first = _mm512_loadu_si512(cursors[c]->state);
    const __m512i second = _mm512_loadu_si512(cursors[c]->state + 16);
    state[c][0] = _mm512_permutex2var_epi32(first, even, second);
    state[c][1] = _mm512_permutex2var_epi32(first, odd, second);
    word[c] = cursors[c]->word;
    end[c] = cursors[c]->end;
    out[c] = cursors[c]->out;
  }
  const __m512i slot_mask = _mm512_set1_epi32((1 << table.scale_bits) - 1);
  const __m512i rank_mask = _mm512_set1_epi32(0xFFF);
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i codes[Chunks][2] = {};
    // Two rounds, twice. Full unrolling would be no faster and would take twice as long to compile.
    for (int pair = 0; pair < 2; ++pair) {
      ECQ_UNROLL
      for (int later = 0; later < 2; ++later) {
        __m512i next[Chunks][2];
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          ECQ_UNROLL
          for (int side = 0; side < 2; ++side) {
            const __m512i entry =
                Lookups::template dwords<4>(table.entries, _mm512_and_si512(state[c][side], slot_mask));
            next[c][side] = _mm512_add_epi32(
                _mm512_mullo_epi32(_mm512_srl_epi32(state[c][side], scale), _mm512_srli_epi32(entry, 20)),
                _mm512_and_si512(_mm512_srli_epi32(entry, 8), rank_mask));
            codes[c][side] = _mm512_shrdi_epi32(codes[c][side], entry, 8);
          }
        }
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          const __mmask16 due_even = _mm512_testn_epi32_mask(next[c][0], high_half);
          const __mmask16 due_odd = _mm512_testn_epi32_mask(next[c][1], high_half);
          const __mmask32 due = _pdep_u32(due_even, 0x55555555U) | _pdep_u32(due_odd, 0xAAAAAAAAU);
          const __m512i words = _mm512_maskz_expand_epi16(due, _mm512_loadu_si512(word[c]));
          word[c] += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(due));
          state[c][0] = _mm512_mask_shldi_epi32(next[c][0], due_even, next[c][0], _mm512_slli_epi32(words, 16), 16);
          state[c][1] = _mm512_mask_shldi_epi32(next[c][1], due_odd, next[c][1], words, 16);
        }
      }
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > end[c];
      if (overrun) return false;
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      prefetch<2>(word[c], prefetch_distance);
      prefetch<2>(out[c], prefetch_distance);
      _mm512_storeu_si512(out[c], _mm512_permutex2var_epi32(codes[c][0], first_half, codes[c][1]));
      _mm512_storeu_si512(out[c] + 64, _mm512_permutex2var_epi32(codes[c][0], second_half, codes[c][1]));
      out[c] += group_symbols;
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi32(state[c][0], first_half, state[c][1]));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_permutex2var_epi32(state[c][0], second_half, state[c][1]));
    cursors[c]->word = word[c];
    cursors[c]->out = out[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
  }
  return true;
}

/// Decodes `groups` whole groups of `count` chunks, 1 .. 4, side by side, by a direct table and without joining them.
/// If one of them runs out of words, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a
/// chunk's words.
inline bool rans_advance(const direct_lookup& table, const element_join&, rans_cursor* const* cursors,
                         std::size_t count, std::size_t groups) {
  if (count == 1) return advance_together<lookups_by_loads, 1>(table, cursors, groups);
  if (count == 2) return advance_together<lookups_by_loads, 2>(table, cursors, groups);
  return advance_filled<4>(cursors, count, [&](rans_cursor* const* all) {
    return machine_has_fast_gathers() ? advance_together<lookups_by_gathers, 4>(table, all, groups)
                                      : advance_together<lookups_by_loads, 4>(table, all, groups);
  });
}

/// Decodes `groups` whole groups of `count` chunks, 1 .. many_chunks, side by side, by an alias table. If one of them
/// runs out of words, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
template <unsigned BucketBits>
inline bool rans_advance(const alias_lookup<BucketBits>& table, const element_join& join, rans_cursor* const* cursors,
                         std::size_t count, std::size_t groups) {
  return advance_filled<many_chunks>(cursors, count, [&](rans_cursor* const* all) {
    if (join.pairs != nullptr) return advance_pairs(table, join, all, count, groups);
    bool joins = false;
    bool advanced = false;
    const auto by = [&]<class Writer>() {
      if constexpr (BucketBits == 5 || Writer::alphabet > 32) {  // otherwise, symbols are joined afterwards
        joins = true;
        if constexpr (Writer::width < 4) {  // for four bytes, few_chunks is the most (rans_decode.hpp)
          if (count > few_chunks) {
            advanced = advance_together<Writer, many_chunks>(table, join, all, groups);
            return;
          }
        }
        advanced = advance_together<Writer, few_chunks>(table, join, all, groups);
      }
    };
    with_writer(join, by);
    if (!joins) by.template operator()<symbol_writer>();
    return advanced;
  });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
