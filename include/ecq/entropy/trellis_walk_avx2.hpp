#pragma once
/// \file
/// Replaces indices by the codes that they stand for on a trellis, in AVX2 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_step_tables.hpp"

namespace ecq::detail::avx2 {

ECQ_AVX2 inline __m256i in_both_halves(const std::uint8_t (&bytes)[16]) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

/// Replaces indices by their codes like codes_of_groups() below, for 32 states if `Wide` and for fewer otherwise.
template <bool Wide>
ECQ_AVX2 inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count,
                                     std::uint8_t* states) {
  constexpr unsigned registers = lane_count / 8;
  const trellis_step_tables& steps = tables_of(walk);
  const __m256i from_parities = in_both_halves(steps.from_parities);
  const __m256i from_state = in_both_halves(steps.from_state);
  const __m256i from_highest = _mm256_set1_epi8(static_cast<char>(steps.from_highest));
  const __m256i one = _mm256_set1_epi8(1);
  const __m256i places = _mm256_set1_epi32(0x08040201);
  const __m256i sum = _mm256_set1_epi16(1);
  const __m256i others = _mm256_set1_epi32(0x70);
  const __m256i bit = _mm256_set1_epi32(0x40201001);
  const __m256i to_all_four = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4,
                                               4, 8, 8, 8, 8, 12, 12, 12, 12);
  __m256i lanes[registers];
  for (__m256i& eight : lanes) eight = _mm256_setzero_si256();
  for (std::size_t at = 0; at < count; at += group_symbols) {
    ECQ_UNROLL
    for (unsigned i = 0; i < registers; ++i) {
      auto* const place = reinterpret_cast<__m256i*>(indices + at + 32 * i);
      const __m256i index = _mm256_loadu_si256(place);
      const __m256i parities = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(index, one), places), sum);
      const __m256i before = lanes[i];
      const __m256i lowest = Wide ? _mm256_and_si256(before, _mm256_set1_epi32(15)) : before;
      __m256i after =
          _mm256_xor_si256(_mm256_shuffle_epi8(from_parities, parities), _mm256_shuffle_epi8(from_state, lowest));
      if constexpr (Wide) {
        const __m256i highest = _mm256_cmpgt_epi8(_mm256_setzero_si256(), before);
        after = _mm256_xor_si256(after, _mm256_and_si256(highest, from_highest));
      }
      lanes[i] = after;
      const __m256i first = _mm256_and_si256(before, _mm256_set1_epi32(1));
      const __m256i quantizers = _mm256_or_si256(first, _mm256_and_si256(after, others));
      const __m256i odd = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(quantizers, to_all_four), bit), bit);
      const __m256i code = _mm256_sub_epi8(_mm256_add_epi8(index, index), odd);
      _mm256_storeu_si256(place, code);
    }
  }
  std::uint32_t bytes[8];
  for (unsigned i = 0; i < registers; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), lanes[i]);
    for (unsigned lane = 0; lane < 8; ++lane) states[8 * i + lane] = trellis_step_tables::state(walk, bytes[lane]);
  }
}

/// Replaces `count` indices, a multiple of 128, by their codes, from state 0 on. Writes the states of the lanes after
/// these indices to `states`.
inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count, std::uint8_t* states) {
  if (walk.state_bits == trellis::max_state_bits) {
    codes_of_groups<true>(walk, indices, count, states);
  } else {
    codes_of_groups<false>(walk, indices, count, states);
  }
}

}  // namespace ecq::detail::avx2

#endif
