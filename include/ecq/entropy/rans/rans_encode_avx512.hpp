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
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_division.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// An encode table for an alias mapping: at most 64 symbols, by number. Each symbol's slots, by rank, lie from `start`
/// on in `slots`; 2 bytes beyond the end of `slots` are read.
struct alias_encoding {
  std::uint8_t number_of_code[256];
  std::uint16_t frequency[64];
  std::uint16_t start[64];
  const std::uint16_t* slots;
};

/// An encode table for a direct mapping: frequency (low half) and first slot of each code.
struct direct_encoding {
  std::uint32_t entries[256];
};

/// Loads four codes of each of 16 lanes in the form that the encode table looks up.
ECQ_AVX512 inline __m512i load_codes(const alias_encoding& table, const std::uint8_t* codes) {
  const __m512i bytes = _mm512_loadu_si512(codes);
  const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(table.number_of_code), bytes,
                                               _mm512_loadu_si512(table.number_of_code + 64));
  const __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(table.number_of_code + 128), bytes,
                                                _mm512_loadu_si512(table.number_of_code + 192));
  return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
}
ECQ_AVX512 inline __m512i load_codes(const direct_encoding&, const std::uint8_t* codes) {
  return _mm512_loadu_si512(codes);
}

/// Looks up frequency and start of the code in the low byte of each 32-bit lane.
template <class Lookups>
ECQ_AVX512 inline void look_up(const alias_encoding& table, __m512i code, __m512i& frequency, __m512i& start) {
  constexpr __mmask32 low_halves = 0x55555555U;
  frequency = _mm512_maskz_permutex2var_epi16(low_halves, _mm512_loadu_si512(table.frequency), code,
                                              _mm512_loadu_si512(table.frequency + 32));
  start = _mm512_maskz_permutex2var_epi16(low_halves, _mm512_loadu_si512(table.start), code,
                                          _mm512_loadu_si512(table.start + 32));
}
template <class Lookups>
ECQ_AVX512 inline void look_up(const direct_encoding& table, __m512i code, __m512i& frequency, __m512i& start) {
  const __m512i entry = Lookups::template dwords<4>(table.entries, code);
  frequency = _mm512_and_si512(entry, _mm512_set1_epi32(0xFFFF));
  start = _mm512_srli_epi32(entry, 16);
}

template <class Lookups>
ECQ_AVX512 inline __m512i slot_at(const alias_encoding& table, __m512i at) {
  return _mm512_and_si512(Lookups::template dwords<2>(table.slots, at), _mm512_set1_epi32(0xFFFF));
}
template <class Lookups>
ECQ_AVX512 inline __m512i slot_at(const direct_encoding&, __m512i at) {
  return at;
}

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <class Lookups, std::size_t Chunks, class Encoding>
ECQ_AVX512 inline void encode_together(const Encoding& table, unsigned scale_bits, rans_encode_cursor* const* cursors,
                                       std::size_t first, std::size_t last) {
  const __m512i low_halves = every(0, 2);
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(scale_bits));
  const __m128i unscale = _mm_cvtsi32_si128(static_cast<int>(32 - scale_bits));
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
      codes[c][0] = load_codes(table, cursors[c]->codes.data() + group * group_symbols);
      codes[c][1] = load_codes(table, cursors[c]->codes.data() + group * group_symbols + 64);
      prefetch<2>(cursors[c]->codes.data() + group * group_symbols, codes_prefetched);
    }
    for (std::size_t round = rounds_per_group; round-- > 0;) {
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        __m512i frequency[2];
        __m512i start[2];
        __mmask16 full[2];
        ECQ_UNROLL
        for (int half = 0; half < 2; ++half) {
          look_up<Lookups>(table, _mm512_srli_epi32(codes[c][half], 24), frequency[half], start[half]);
          codes[c][half] = _mm512_slli_epi32(codes[c][half], 8);
          full[half] = _mm512_cmpge_epu32_mask(state[c][half], _mm512_sll_epi32(frequency[half], unscale));
        }
        const __mmask32 due = _mm512_kunpackw(full[1], full[0]);
        const auto count = static_cast<unsigned>(_mm_popcnt_u32(due));
        const __m512i words =
            _mm512_maskz_compress_epi16(due, _mm512_permutex2var_epi16(state[c][0], low_halves, state[c][1]));
        word[c] -= count;
        _mm512_mask_storeu_epi16(word[c], _bzhi_u32(~0U, count), words);
        ECQ_UNROLL
        for (int half = 0; half < 2; ++half) {
          const __m512i divisor = frequency[half];
          // Nothing here waits for a state but what has to.
          const __m512 inverse = _mm512_div_ps(_mm512_set1_ps(float_division::shrink), _mm512_cvtepu32_ps(divisor));
          const __m512i dividend = _mm512_mask_srli_epi32(state[c][half], full[half], state[c][half], 16);
          // The quotient, or one less than it.
          __m512i quotient = _mm512_cvttps_epu32(_mm512_mul_ps(_mm512_cvtepu32_ps(dividend), inverse));
          __m512i rest = _mm512_sub_epi32(dividend, _mm512_mullo_epi32(quotient, divisor));
          const __mmask16 more = _mm512_cmpge_epu32_mask(rest, divisor);
          quotient = _mm512_mask_sub_epi32(quotient, more, quotient, _mm512_set1_epi32(-1));
          rest = _mm512_mask_sub_epi32(rest, more, rest, divisor);
          state[c][half] = _mm512_add_epi32(_mm512_sll_epi32(quotient, scale),
                                            slot_at<Lookups>(table, _mm512_add_epi32(start[half], rest)));
        }
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

/// Encodes all that is left of one or two chunks, which must be whole groups.
template <class Encoding>
inline void rans_encode(const Encoding& table, unsigned scale_bits, std::span<rans_encode_cursor> cursors) {
  encode_in_runs(cursors, [&](rans_encode_cursor* const* run, std::size_t count, std::size_t first, std::size_t last) {
    if (count == 1) return encode_together<lookups_by_loads, 1>(table, scale_bits, run, first, last);
    machine_has_fast_gathers() ? encode_together<lookups_by_gathers, 2>(table, scale_bits, run, first, last)
                               : encode_together<lookups_by_loads, 2>(table, scale_bits, run, first, last);
  });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
