#pragma once
/// \file
/// Encodes rANS by alias tables with AVX-512 and VBMI2. With 2^16 slots, a step leaves the quotient of a state in its
/// high half and a slot in its low half. So the kernel keeps halves of 32 states in two registers of 16-bit lanes,
/// divides in 16-bit arithmetic, and looks up in registers alone. It takes whole groups of two or four chunks and
/// writes the same words as the scalar definition.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/rans/alias_encoding.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Halves of 32 states.
struct split_states {
  __m512i high;
  __m512i low;
};

/// Values that a step of one chunk hands from stage to stage.
struct alias_lanes {
  __m512i numbers;  ///< numbers of symbols
  __m512i divisor;
  __m512i own_and_shift;
  __m512i quotient;
  __m512i fraction;
  __m512i rest;  ///< later the rank
  __m512i position;
  __m512i found;
};

/// Finds one more bit of the bucket in which a position lies.
ECQ_AVX512 [[gnu::always_inline]] inline void descend(const alias_encoding& table, unsigned level, alias_lanes& at) {
  const __m512i begin = _mm512_permutexvar_epi16(at.found, _mm512_loadu_si512(table.begin[level]));
  at.found = _mm512_mask_add_epi16(at.found, _mm512_cmpge_epu16_mask(at.position, begin), at.found,
                                   _mm512_set1_epi16(static_cast<short>(1 << level)));
}

/// Takes 32 states of each chunk through the symbols lanes[c].numbers. Stages of all chunks alternate, because a
/// processor looks ahead by less than a step of one chunk.
template <std::size_t Chunks>
ECQ_AVX512 [[gnu::always_inline]] inline void encode_step(const alias_encoding& table, alias_lanes (&lanes)[Chunks],
                                                          split_states (&x)[Chunks], std::uint16_t* (&word)[Chunks]) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i zeros = _mm512_setzero_si512();
  const bool few = table.bucket_bits == 5;
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    at.divisor = entries_of(table.divisor, at.numbers, few);
    at.own_and_shift = entries_of(table.own_and_shift, at.numbers, few);
    // Double shifts use only the low four bits of their count.
    const __mmask32 due = _mm512_cmpge_epu16_mask(x[c].high, _mm512_shrdv_epi16(at.divisor, zeros, at.own_and_shift));
    const auto count = static_cast<unsigned>(_mm_popcnt_u32(due));
    word[c] -= count;
    _mm512_mask_storeu_epi16(word[c], _bzhi_u32(~0U, count), _mm512_maskz_compress_epi16(due, x[c].low));
    const __m512i dividend = _mm512_mask_mov_epi16(x[c].low, due, x[c].high);
    const __m512i above = _mm512_mask_sub_epi16(x[c].high, due, x[c].high, x[c].high);
    at.quotient = _mm512_shldv_epi16(above, dividend, at.own_and_shift);
    at.rest = _mm512_shldv_epi16(dividend, zeros, at.own_and_shift);
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    const __m512i reciprocal = entries_of(table.reciprocal, at.numbers, few);
    const __m512i high = at.quotient;
    at.fraction = _mm512_add_epi16(_mm512_mullo_epi16(reciprocal, high), at.rest);
    // The quotient, one more, or rarely one less.
    at.quotient = _mm512_add_epi16(_mm512_mulhi_epu16(reciprocal, high), _mm512_add_epi16(high, one));
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    at.quotient = _mm512_mask_add_epi16(at.quotient, _mm512_cmplt_epu16_mask(at.fraction, at.rest), at.quotient, one);
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    at.rest = _mm512_sub_epi16(at.rest, _mm512_mullo_epi16(at.quotient, at.divisor));
    const __mmask32 above = _mm512_cmplt_epu16_mask(at.fraction, at.rest);
    at.quotient = _mm512_mask_sub_epi16(at.quotient, above, at.quotient, one);
    at.rest = _mm512_mask_add_epi16(at.rest, above, at.rest, at.divisor);
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    const __mmask32 below = _mm512_cmpge_epu16_mask(at.rest, at.divisor);
    x[c].high = _mm512_mask_add_epi16(at.quotient, below, at.quotient, one);
    at.rest = _mm512_mask_sub_epi16(at.rest, below, at.rest, at.divisor);
    at.rest = _mm512_shrdv_epi16(at.rest, zeros, at.own_and_shift);
    at.position = _mm512_add_epi16(at.rest, entries_of(table.first, at.numbers, few));
    const __m512i middle = _mm512_set1_epi16(static_cast<short>(table.begin[0][0]));
    at.found = _mm512_maskz_mov_epi16(_mm512_cmpge_epu16_mask(at.position, middle), one);
  }
  ECQ_UNROLL
  for (unsigned level = 1; level < 5; ++level) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) descend(table, level, lanes[c]);
  }
  const bool wide = table.levels > 5;
  if (wide) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) descend(table, 5, lanes[c]);
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) lanes[c].found = entries_of(table.offset, lanes[c].found, !wide);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    alias_lanes& at = lanes[c];
    const __mmask32 own =
        _mm512_cmplt_epu16_mask(at.rest, _mm512_srli_epi16(at.own_and_shift, alias_encoding::shift_bits));
    const __m512i bits = _mm512_set1_epi16(static_cast<short>(table.bucket_bits));
    x[c].low = _mm512_add_epi16(_mm512_sllv_epi16(_mm512_mask_mov_epi16(at.position, own, at.rest), bits),
                                _mm512_mask_mov_epi16(at.found, own, at.numbers));
  }
}

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <std::size_t Chunks>
ECQ_AVX512 inline void encode_together(const alias_encoding& table, const std::uint8_t (&number_of_code)[256],
                                       rans_encode_cursor* const* cursors, std::size_t first, std::size_t last) {
  split_states state[Chunks];
  std::uint16_t* word[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i lower = _mm512_loadu_si512(cursors[c]->state);
    const __m512i upper = _mm512_loadu_si512(cursors[c]->state + 16);
    state[c] = {_mm512_permutex2var_epi16(lower, every(1, 2), upper),
                _mm512_permutex2var_epi16(lower, every(0, 2), upper)};
    word[c] = cursors[c]->word;
  }
  for (std::size_t group = last; group-- > first;) {
    numbers_of_group numbers[Chunks];
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      const std::uint8_t* const codes = cursors[c]->codes.data() + group * group_symbols;
      numbers[c].begin(number_of_code, codes);
      prefetch<2>(codes, codes_prefetched);
    }
    // Two rounds, twice. Full unrolling would be no faster and would take twice as long to compile.
    for (unsigned pair = 2; pair-- > 0;) {
      ECQ_UNROLL
      for (unsigned back = 1; back <= 2; ++back) {
        alias_lanes lanes[Chunks];
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) lanes[c].numbers = numbers[c].of_round(pair, 2 - back);
        encode_step(table, lanes, state, word);
      }
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi16(state[c].low, interleaved(0), state[c].high));
    _mm512_storeu_si512(cursors[c]->state + 16,
                        _mm512_permutex2var_epi16(state[c].low, interleaved(16), state[c].high));
    cursors[c]->word = word[c];
  }
}

/// Encodes the rest of the chunks, which must be whole groups.
inline void rans_encode(const alias_encoding& table, const std::uint8_t (&number_of_code)[256],
                        std::span<rans_encode_cursor> cursors) {
  encode_in_runs<4>(
      cursors, [&](rans_encode_cursor* const* run, std::size_t count, std::size_t first, std::size_t last) {
        if (count > 2) {
          return advance_filled<4>(run, count,
                                   [&](auto all) { encode_together<4>(table, number_of_code, all, first, last); });
        }
        advance_filled<2>(run, count, [&](auto all) { encode_together<2>(table, number_of_code, all, first, last); });
      });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
