#pragma once
/// \file
/// Replaces indices by the codes that they stand for on a trellis, in AVX-512 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_step_tables.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

ECQ_AVX512 inline __m512i in_all_quarters(const std::uint8_t (&bytes)[16]) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

/// `Wide`: 32 states.
template <bool Wide>
ECQ_AVX512 inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count,
                                       std::uint8_t* states) {
  constexpr unsigned lanes_of_register = 16, registers = lane_count / lanes_of_register;
  constexpr std::uint8_t lane_bytes[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  const trellis_step_tables steps(walk);
  const __m512i from_parities = in_all_quarters(steps.from_parities);
  const __m512i from_state = in_all_quarters(steps.from_state);
  const __m512i from_highest = _mm512_set1_epi32(steps.from_highest);
  const __m512i one = _mm512_set1_epi8(1), minus_one = _mm512_set1_epi8(-1);
  const __m512i places = _mm512_set1_epi32(0x08040201);
  const __m512i sum = _mm512_set1_epi16(1);
  const __m512i first = _mm512_set1_epi32(1), others = _mm512_set1_epi32(0x70);
  const __m512i bit = _mm512_set1_epi32(0x40201001);
  const __m512i to_all_four = in_all_quarters(lane_bytes);
  __m512i lanes[registers];
  for (__m512i& some : lanes) some = _mm512_setzero_si512();
  for (std::size_t at = 0; at < count; at += group_symbols) {
    ECQ_UNROLL
    for (unsigned i = 0; i < registers; ++i) {
      std::uint8_t* const place = indices + at + 64 * i;
      const __m512i index = _mm512_loadu_si512(place);
      const __m512i parities = _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_and_si512(index, one), places), sum);
      const __m512i before = lanes[i];
      const __m512i lowest = Wide ? _mm512_and_si512(before, _mm512_set1_epi32(15)) : before;
      __m512i after =
          _mm512_xor_si512(_mm512_shuffle_epi8(from_parities, parities), _mm512_shuffle_epi8(from_state, lowest));
      if constexpr (Wide) {
        const __mmask16 highest = _mm512_test_epi32_mask(before, _mm512_set1_epi32(0x80));
        after = _mm512_mask_xor_epi32(after, highest, after, from_highest);
      }
      lanes[i] = after;
      const __m512i quantizers = _mm512_or_si512(_mm512_and_si512(before, first), _mm512_and_si512(after, others));
      const __mmask64 moved = _mm512_mask_test_epi8_mask(_mm512_test_epi8_mask(index, index),
                                                         _mm512_shuffle_epi8(quantizers, to_all_four), bit);
      const __m512i sign = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), one, minus_one);
      const __m512i twice = _mm512_add_epi8(index, index);
      _mm512_storeu_si512(place, _mm512_mask_sub_epi8(twice, moved, twice, sign));
    }
  }
  std::uint32_t bytes[lanes_of_register];
  for (unsigned i = 0; i < registers; ++i) {
    _mm512_storeu_si512(bytes, lanes[i]);
    for (unsigned lane = 0; lane < lanes_of_register; ++lane) {
      states[lanes_of_register * i + lane] = trellis_step_tables::state(walk, bytes[lane]);
    }
  }
}

/// codes_of_groups of trellis_walk_avx2.hpp.
inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count, std::uint8_t* states) {
  if (walk.state_bits == trellis::max_state_bits) {
    codes_of_groups<true>(walk, indices, count, states);
  } else {
    codes_of_groups<false>(walk, indices, count, states);
  }
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
