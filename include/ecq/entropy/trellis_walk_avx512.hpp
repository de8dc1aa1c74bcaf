#pragma once
/// \file
/// Replaces indices by the codes that they stand for on a trellis, in AVX-512 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/four_trellises_avx512.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_lanes_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns the codes of 64 indices. Indices in `second` belong to the second quantiser.
ECQ_AVX512 [[gnu::always_inline]] inline __m512i codes_of_indices(__m512i index, __mmask64 second) {
  const __m512i twice = _mm512_add_epi8(index, index);
  return _mm512_mask_add_epi8(twice, second, twice, _mm512_set1_epi8(1));
}

/// Replaces indices by their codes like codes_of_groups() below, where it is known whether there are 32 states
/// (trellis_lanes::step).
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

/// Replaces `count` indices at each of four places by their codes, from state 0 on. `Highest` says whether there are 32
/// states. `count` is a multiple of 128.
template <bool Highest>
ECQ_AVX512 inline void codes_of_four(const trellis& walk, std::uint8_t* const* places, std::size_t count) {
  constexpr std::size_t registers = four_trellises::registers;
  const four_trellises four(walk);
  four_trellises::states lanes = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::uint8_t* const own[] = {places[0], places[1], places[2], places[3]};  // a copy, which stored bytes cannot change
  __m512i parities = four_trellises::parities(own, 0);
  for (std::size_t at = 0; at < count; at += group_symbols) {
    // A group takes longer from end to end than the processor looks ahead, so the next one begins before it ends.
    const __m512i quantizers = four.step<Highest>(lanes, parities);
    parities = four_trellises::parities(own, at + group_symbols < count ? at + group_symbols : at);
    __m512i indices[registers];
    ECQ_UNROLL
    for (std::size_t i = 0; i < registers; ++i) indices[i] = four_trellises::load(own, at, i);
    // All loads come before stores: places are often equal modulo 4096, and a load waits for a store to such a place.
    ECQ_UNROLL
    for (std::size_t i = 0; i < registers; ++i) {
      _mm512_storeu_si512(own[i / 2] + at + 64 * (i % 2), four_trellises::codes(indices[i], quantizers, i));
    }
  }
}

ECQ_AVX512 inline void codes_of_four(const trellis& walk, std::uint8_t* const* places, std::size_t count) {
  if (walk.state_bits == trellis::max_state_bits) {
    codes_of_four<true>(walk, places, count);
  } else {
    codes_of_four<false>(walk, places, count);
  }
}

/// Replaces indices by their codes like codes_of_groups() of trellis_walk_avx2.hpp.
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
