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
#include "ecq/entropy/trellis_lanes_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// The codes of 64 indices, of which `second` are of the second quantiser.
ECQ_AVX512 [[gnu::always_inline]] inline __m512i codes_of_indices(__m512i index, __mmask64 second) {
  const __m512i sign = _mm512_max_epi8(_mm512_min_epi8(index, _mm512_set1_epi8(1)), _mm512_set1_epi8(-1));
  const __m512i twice = _mm512_add_epi8(index, index);
  return _mm512_mask_sub_epi8(twice, second, twice, sign);
}

/// The same where it is known whether there are 32 states (trellis_lanes::step).
template <bool Highest>
ECQ_AVX512 inline void codes_of_groups(const trellis_lanes& steps, std::uint8_t* indices, std::size_t count,
                                       std::uint8_t* states) {
  trellis_lanes::states lanes[trellis_lanes::registers] = {};
  for (std::size_t at = 0; at < count; at += group_symbols) {
    ECQ_UNROLL
    for (unsigned i = 0; i < trellis_lanes::registers; ++i) {
      std::uint8_t* const place = indices + at + 64 * i;
      const __m512i index = _mm512_loadu_si512(place);
      const __mmask64 second = steps.step<Highest>(lanes[i], index);
      _mm512_storeu_si512(place, codes_of_indices(index, second));
    }
  }
  for (unsigned i = 0; i < trellis_lanes::registers; ++i) {
    trellis_lanes::store_states(lanes[i], states + trellis_lanes::lanes_of_register * i);
  }
}

/// codes_of_groups of trellis_walk_avx2.hpp.
ECQ_AVX512 inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count,
                                       std::uint8_t* states) {
  const trellis_lanes steps(walk);
  if (steps.highest) {
    codes_of_groups<true>(steps, indices, count, states);
  } else {
    codes_of_groups<false>(steps, indices, count, states);
  }
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
