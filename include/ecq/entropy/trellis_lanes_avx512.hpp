#pragma once
/// \file
/// Steps of the lanes of a trellis in AVX-512 registers, with GFNI.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_step_tables.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Effect of four steps, as matrices of bits. Steps are linear, so state and quantisers are products with a byte of the
/// lane. Its upper half is the parities of four indices, the first one highest, and its lower half is the lowest four
/// bits of the state before the steps.
struct trellis_matrix {
  /// Gives bits 0 to 3 of the next state, and above them the quantisers of the four steps, the first one lowest.
  std::uint64_t steps = 0;
  std::uint64_t highest = 0;  ///< gives bit 4 of the next state, as bit 0

  constexpr explicit trellis_matrix(const trellis& walk) {
    for (unsigned bit = 0; bit < 4; ++bit) {
      add(walk, bit, (1U << bit) % walk.states(), 0);
      add(walk, 4 + bit, 0, 8U >> bit);
    }
  }

 private:
  /// Adds the effect of bit `bit`, which stands for `state` and for `parities`, the first parity lowest.
  constexpr void add(const trellis& walk, unsigned bit, unsigned state, unsigned parities) {
    const four_steps to(walk, state, parities);
    // The row of bit 0 is the highest byte.
    for (unsigned row = 0; row < 4; ++row) {
      steps |= std::uint64_t{to.state >> row & 1U} << (8 * (7 - row) + bit);
      steps |= std::uint64_t{to.quantizers >> row & 1U} << (8 * (3 - row) + bit);
    }
    highest |= std::uint64_t{to.state >> 4 & 1U} << (8 * 7 + bit);
  }
};

/// Matrices by the binary logarithm of the number of states, from trellis::min_state_bits on.
inline constexpr trellis_matrix matrix_of[] = {trellis_matrix({2}), trellis_matrix({3}), trellis_matrix({4}),
                                               trellis_matrix({5})};

/// Four steps of 16 lanes at once. Each lane has four equal bytes.
class trellis_lanes {
 public:
  static constexpr unsigned lanes_of_register = 16;
  static constexpr unsigned registers = lane_count / lanes_of_register;

  /// States of 16 lanes: products with trellis_matrix::steps and, if there are 32 states, trellis_matrix::highest. They
  /// are 0 in state 0.
  struct states {
    __m512i low;
    __m512i highest;
  };

  ECQ_AVX512 explicit trellis_lanes(const trellis& walk) : highest(walk.states() > 16) {
    const trellis_matrix& matrix = matrix_of[walk.state_bits - trellis::min_state_bits];
    by_steps_ = _mm512_set1_epi64(static_cast<long long>(matrix.steps));
    by_highest_ = _mm512_set1_epi64(static_cast<long long>(matrix.highest));
  }

  /// Moves `lanes` on by four indices each: 64 bytes, of which only the lowest bits count. Returns a mask of the
  /// indices that belong to the second quantiser. `Highest` says whether there are 32 states.
  template <bool Highest>
  ECQ_AVX512 [[gnu::always_inline]] inline __mmask64 step(states& lanes, __m512i indices) const {
    // A matrix whose rows are eight indices maps 1 to their lowest bits: parities of two lanes, the first lane's above.
    const __m512i of_two = _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi8(1), indices, 0);
    const __m512i parities = _mm512_rolv_epi32(of_two, _mm512_set1_epi64(0x0000000400000000));
    const __m512i from = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), lanes.low, parities, 0xCA);
    lanes.low = _mm512_gf2p8affine_epi64_epi8(from, by_steps_, 0);
    const __mmask64 second = _mm512_test_epi8_mask(lanes.low, _mm512_set1_epi32(static_cast<int>(0x80402010)));
    if constexpr (Highest) {
      // Four steps take bit 4 of a state to bit 0, and no further.
      lanes.low = _mm512_xor_si512(lanes.low, lanes.highest);
      lanes.highest = _mm512_gf2p8affine_epi64_epi8(from, by_highest_, 0);
    }
    return second;
  }

  /// Writes the states of 16 lanes.
  ECQ_AVX512 static void store_states(const states& lanes, std::uint8_t* to) {
    const __m512i low = _mm512_and_si512(lanes.low, _mm512_set1_epi32(15));
    const __m512i one = _mm512_and_si512(lanes.highest, _mm512_set1_epi32(1));
    const __m512i all = _mm512_or_si512(low, _mm512_slli_epi32(one, 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(all));
  }

  const bool highest;  ///< whether there are 32 states

 private:
  __m512i by_steps_, by_highest_;
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
