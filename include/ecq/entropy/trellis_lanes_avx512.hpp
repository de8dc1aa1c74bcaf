#pragma once
/// \file
/// Steps of the lanes of a trellis in AVX-512 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// The lanes that parities and states alone lead to (trellis_lanes).
struct trellis_lane_tables {
  std::uint32_t from_parities[16] = {};
  std::uint32_t from_state[32] = {};

  constexpr explicit trellis_lane_tables(const trellis& walk) {
    for (unsigned i = 0; i < 16; ++i) from_parities[i] = after(walk, 0, i);
    for (unsigned i = 0; i < 32; ++i) from_state[i] = after(walk, i % walk.states(), 0);
  }

 private:
  /// The lane that `state` and `parities`, the first of them lowest, lead to.
  static constexpr std::uint32_t after(const trellis& walk, unsigned state, unsigned parities) {
    std::uint32_t lane = 0;
    for (unsigned step = 0; step < rounds_per_group; ++step) {
      lane |= trellis::quantizer(state) << (8 * step + 7);
      state = walk.next(state, parities >> step & 1U);
    }
    return lane | state;
  }
};

/// By the binary logarithm of the states, from trellis::min_state_bits on.
inline constexpr trellis_lane_tables tables_of_lanes[] = {trellis_lane_tables({2}), trellis_lane_tables({3}),
                                                          trellis_lane_tables({4}), trellis_lane_tables({5})};

/// Four steps of 16 lanes at once. A lane has 32 bits: the lowest five are the state that the steps lead to, and the
/// highest bit of each byte is the quantiser of a step. Steps are linear, so what state and parities lead to is the
/// exclusive or of what either leads to alone.
class trellis_lanes {
 public:
  static constexpr unsigned lanes_of_register = 16;
  static constexpr unsigned registers = lane_count / lanes_of_register;

  ECQ_AVX512 explicit trellis_lanes(const trellis& walk) {
    const trellis_lane_tables& tables = tables_of_lanes[walk.state_bits - trellis::min_state_bits];
    from_parities_ = _mm512_loadu_si512(tables.from_parities);
    from_state_[0] = _mm512_loadu_si512(tables.from_state);
    from_state_[1] = _mm512_loadu_si512(tables.from_state + 16);
  }

  /// Moves `lanes` on by four indices each, 64 bytes that are 1 where an index is odd and 0 elsewhere. Returns which of
  /// the indices are of the second quantiser.
  ECQ_AVX512 [[gnu::always_inline]] inline __mmask64 step(__m512i& lanes, __m512i odd) const {
    const __m512i pairs = _mm512_maddubs_epi16(odd, _mm512_set1_epi32(0x08040201));
    const __m512i parities = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    lanes = _mm512_xor_si512(_mm512_permutexvar_epi32(parities, from_parities_),
                             _mm512_permutex2var_epi32(from_state_[0], lanes, from_state_[1]));
    return _mm512_movepi8_mask(lanes);
  }

  /// Writes the states of 16 lanes.
  ECQ_AVX512 static void store_states(__m512i lanes, std::uint8_t* to) {
    const __m512i states = _mm512_and_si512(lanes, _mm512_set1_epi32(31));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(states));
  }

 private:
  __m512i from_parities_, from_state_[2];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
