#pragma once
/// \file
/// Encodes rANS with AVX-512 and VBMI2. The kernel takes whole groups of one or two chunks and writes the same words as
/// the scalar definition.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/rans/encode_entries.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_division.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Encode table for a direct mapping.
struct direct_encoding {
  unsigned scale_bits;
  encode_entries entries;
};

/// Table entries of the symbols of 16 lanes.
struct encode_lanes {
  __m512i frequency;
  __m512i start;
  __m512 inverse;
};

template <class Lookups>
ECQ_AVX512 inline encode_lanes look_up(const direct_encoding& table, __m512i codes) {
  const auto entries = Lookups::template qwords<8>(table.entries.words, codes);
  return {_mm512_and_si512(entries.high, _mm512_set1_epi32(0xFFFF)), _mm512_srli_epi32(entries.high, 16),
          _mm512_castsi512_ps(entries.low)};
}

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <class Lookups, std::size_t Chunks>
ECQ_AVX512 inline void encode_together(const direct_encoding& table, rans_encode_cursor* const* cursors,
                                       std::size_t first, std::size_t last) {
  const __m512i low_halves = every(0, 2);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(table.scale_bits));
  const __m128i unscale = _mm_cvtsi32_si128(static_cast<int>(32 - table.scale_bits));
  const __m512i all_slots = _mm512_set1_epi32(1 << table.scale_bits);
  __m512i state[Chunks][2];
  std::uint16_t* word[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    state[c][0] = _mm512_loadu_si512(cursors[c]->state);
    state[c][1] = _mm512_loadu_si512(cursors[c]->state + 16);
    word[c] = cursors[c]->word;
  }
  for (std::size_t group = last; group-- > first;) {
    __m512i codes[Chunks][2];
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      codes[c][0] = _mm512_loadu_si512(cursors[c]->codes.data() + group * group_symbols);
      codes[c][1] = _mm512_loadu_si512(cursors[c]->codes.data() + group * group_symbols + 64);
      prefetch<2>(cursors[c]->codes.data() + group * group_symbols, codes_prefetched);
    }
    for (std::size_t round = rounds_per_group; round-- > 0;) {
      // Stages of all chunks alternate: a processor looks ahead by less than a step of one chunk.
      encode_lanes lanes[Chunks][2];
      __m512i dividend[Chunks][2];
      __m512i quotient[Chunks][2];
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        __mmask16 full[2];
        ECQ_UNROLL
        for (int half = 0; half < 2; ++half) {
          lanes[c][half] = look_up<Lookups>(table, _mm512_srli_epi32(codes[c][half], 24));
          codes[c][half] = _mm512_slli_epi32(codes[c][half], 8);
          full[half] = _mm512_cmpge_epu32_mask(state[c][half], _mm512_sll_epi32(lanes[c][half].frequency, unscale));
          dividend[c][half] = _mm512_mask_srli_epi32(state[c][half], full[half], state[c][half], 16);
        }
        const __mmask32 due = _mm512_kunpackw(full[1], full[0]);
        const auto count = static_cast<unsigned>(_mm_popcnt_u32(due));
        const __m512i words =
            _mm512_maskz_compress_epi16(due, _mm512_permutex2var_epi16(state[c][0], low_halves, state[c][1]));
        word[c] -= count;
        _mm512_mask_storeu_epi16(word[c], _bzhi_u32(~0U, count), words);
      }
      ECQ_UNROLL
      for (std::size_t i = 0; i < 2 * Chunks; ++i) {
        const __m512 real = _mm512_cvtepu32_ps(dividend[i / 2][i % 2]);
        // The quotient, or one less than it.
        quotient[i / 2][i % 2] = _mm512_cvttps_epu32(_mm512_mul_ps(real, lanes[i / 2][i % 2].inverse));
      }
      ECQ_UNROLL
      for (std::size_t i = 0; i < 2 * Chunks; ++i) {
        const encode_lanes& symbol = lanes[i / 2][i % 2];
        const __m512i product = _mm512_mullo_epi32(quotient[i / 2][i % 2], symbol.frequency);
        const __m512i rest = _mm512_sub_epi32(dividend[i / 2][i % 2], product);
        const __mmask16 more = _mm512_cmpge_epu32_mask(rest, symbol.frequency);
        const __m512i above =
            _mm512_add_epi32(_mm512_sll_epi32(quotient[i / 2][i % 2], scale), _mm512_add_epi32(symbol.start, rest));
        const __m512i more_slots = _mm512_sub_epi32(all_slots, symbol.frequency);
        state[i / 2][i % 2] = _mm512_mask_add_epi32(above, more, above, more_slots);
      }
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, state[c][0]);
    _mm512_storeu_si512(cursors[c]->state + 16, state[c][1]);
    cursors[c]->word = word[c];
  }
}

/// Encodes the rest of the chunks, which must be whole groups.
inline void rans_encode(const direct_encoding& table, std::span<rans_encode_cursor> cursors) {
  encode_in_runs<2>(cursors,
                    [&](rans_encode_cursor* const* run, std::size_t count, std::size_t first, std::size_t last) {
                      if (count == 1) return encode_together<lookups_by_loads, 1>(table, run, first, last);
                      machine_has_fast_gathers() ? encode_together<lookups_by_gathers, 2>(table, run, first, last)
                                                 : encode_together<lookups_by_loads, 2>(table, run, first, last);
                    });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
