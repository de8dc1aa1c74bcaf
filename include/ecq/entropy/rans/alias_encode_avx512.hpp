#pragma once
/// \file
/// Encodes rANS by alias tables with AVX-512 and VBMI2. With 2^16 slots a step leaves the quotient of a state in its
/// high half and a slot in its low half, so the kernel keeps halves of 32 states in two registers of 16-bit lanes,
/// divides in 16-bit arithmetic, and looks up in registers alone. It takes whole groups of four chunks and writes the
/// same words as the scalar definition.

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

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// The numbers of 64 codes, each an entry of a table of 256.
ECQ_AVX512 inline __m512i numbers_of(const std::uint8_t* table, const std::uint8_t* codes) {
  const __m512i bytes = _mm512_loadu_si512(codes);
  const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(table), bytes, _mm512_loadu_si512(table + 64));
  const __m512i high =
      _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), bytes, _mm512_loadu_si512(table + 192));
  return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
}

/// The entries whose numbers are the low bits of each lane: five bits of `few`, else six.
ECQ_AVX512 inline __m512i entries_of(const std::uint16_t (&table)[64], __m512i numbers, bool few) {
  const __m512i lower = _mm512_loadu_si512(table);
  return few ? _mm512_permutexvar_epi16(numbers, lower)
             : _mm512_permutex2var_epi16(lower, numbers, _mm512_loadu_si512(table + 32));
}

/// Halves of 32 states.
struct split_states {
  __m512i high;
  __m512i low;
};

/// What a step of one chunk hands from stage to stage.
struct alias_lanes {
  __m512i numbers;  ///< of symbols
  __m512i divisor;
  __m512i own_and_shift;
  __m512i quotient;
  __m512i fraction;
  __m512i rest;  ///< later the rank
  __m512i position;
  __m512i found;
};

/// Finds another bit of the bucket in which a position lies.
ECQ_AVX512 [[gnu::always_inline]] inline void descend(const alias_encoding& table, unsigned level, alias_lanes& at) {
  const __m512i begin = _mm512_permutexvar_epi16(at.found, _mm512_loadu_si512(table.begin[level]));
  at.found = _mm512_mask_add_epi16(at.found, _mm512_cmpge_epu16_mask(at.position, begin), at.found,
                                   _mm512_set1_epi16(static_cast<short>(1 << level)));
}

/// Takes 32 states of each chunk through the symbols lanes[c].numbers. Stages of all chunks alternate: a processor
/// looks ahead by less than a step of one chunk.
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
    // Shifts of pairs take the low four bits of their count.
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
ECQ_AVX512 inline void encode_together(const alias_encoding& table, const std::uint8_t* number_of_code,
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
    __m512i numbers[Chunks][2];  // of rounds 0 and 1, and of 2 and 3
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      const std::uint8_t* const codes = cursors[c]->codes.data() + group * group_symbols;
      const __m512i lower = numbers_of(number_of_code, codes);
      const __m512i upper = numbers_of(number_of_code, codes + 64);
      numbers[c][0] = _mm512_permutex2var_epi16(lower, every(0, 2), upper);
      numbers[c][1] = _mm512_permutex2var_epi16(lower, every(1, 2), upper);
      prefetch<2>(codes, codes_prefetched);
    }
    ECQ_UNROLL
    for (unsigned back = 1; back <= rounds_per_group; ++back) {
      const unsigned round = rounds_per_group - back;
      alias_lanes lanes[Chunks];
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        const __m512i two = numbers[c][round / 2];
        lanes[c].numbers = round % 2 == 0 ? _mm512_and_si512(two, _mm512_set1_epi16(0xFF)) : _mm512_srli_epi16(two, 8);
      }
      encode_step(table, lanes, state, word);
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

/// Encodes all that is left of chunks, which must be whole groups.
inline void rans_encode(const alias_encoding& table, const std::uint8_t* number_of_code,
                        std::span<rans_encode_cursor> cursors) {
  constexpr std::size_t together = 4;
  encode_in_runs<together>(cursors,
                           [&](rans_encode_cursor* const* run, std::size_t count, std::size_t first, std::size_t last) {
                             rans_encode_cursor copy = *run[0];  // which writes the same words again
                             rans_encode_cursor* all[together];
                             for (std::size_t i = 0; i < together; ++i) all[i] = i < count ? run[i] : &copy;
                             encode_together<together>(table, number_of_code, all, first, last);
                           });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
