#pragma once
/// \file
/// Steps of four trellises side by side in AVX-512 registers, with GFNI: a group of 128 indices of each.

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

/// Effect of four steps on two lanes, as matrices of bits by which bytes are multiplied. Steps are linear, so
/// quantisers and states are sums of two products, one of parities and one of states. In a byte of quantisers or
/// states, each lane has a nibble, the first lane the lower one. A byte of parities has the opposite order: the first
/// parity of the first lane is the highest bit.
struct two_lane_matrices {
  std::uint64_t quantizers_of_parities = 0, quantizers_of_state = 0;
  std::uint64_t state_of_parities = 0, state_of_state = 0;
  std::uint64_t highest_of_parities = 0, highest_of_state = 0;  ///< bit 4 of the state, as bit 0 of a nibble

  constexpr explicit two_lane_matrices(const trellis& walk) {
    for (unsigned lane = 0; lane < 2; ++lane) {
      for (unsigned bit = 0; bit < 4; ++bit) {
        const four_steps parity(walk, 0, 1U << bit);
        const four_steps state(walk, (1U << bit) % walk.states(), 0);
        add(parity, lane, 7 - 4 * lane - bit, quantizers_of_parities, state_of_parities, highest_of_parities);
        add(state, lane, 4 * lane + bit, quantizers_of_state, state_of_state, highest_of_state);
      }
    }
  }

 private:
  /// Records in the matrices that bit `from` of a factor leads to `to` in `lane`. The row of bit 0 is the highest byte.
  static constexpr void add(const four_steps& to, unsigned lane, unsigned from, std::uint64_t& quantizers,
                            std::uint64_t& state, std::uint64_t& highest) {
    for (unsigned bit = 0; bit < 4; ++bit) {
      quantizers |= std::uint64_t{to.quantizers >> bit & 1U} << (8 * (7 - 4 * lane - bit) + from);
      state |= std::uint64_t{to.state >> bit & 1U} << (8 * (7 - 4 * lane - bit) + from);
    }
    highest |= std::uint64_t{to.state >> 4 & 1U} << (8 * (7 - 4 * lane) + from);
  }
};

inline constexpr two_lane_matrices two_lane_matrices_of[] = {two_lane_matrices({2}), two_lane_matrices({3}),
                                                             two_lane_matrices({4}), two_lane_matrices({5})};

ECQ_AVX512 inline __m512i every_matrix(std::uint64_t matrix) {
  return _mm512_set1_epi64(static_cast<long long>(matrix));
}

/// Multishift controls that spread the eight bits of any one byte of 64 bits over eight bytes.
struct bit_places {
  constexpr bit_places() {
    for (unsigned byte = 0; byte < 8; ++byte) {
      for (unsigned i = 0; i < 64; ++i) of_byte[byte][i] = static_cast<std::uint8_t>(8 * byte + i % 8);
    }
  }

  alignas(64) std::uint8_t of_byte[8][64] = {};
};

inline constexpr bit_places places_of_bits;

/// Four trellises at the same position in their periods. A group of each fills two registers of 64 indices.
class four_trellises {
 public:
  static constexpr std::size_t trellises = 4;
  static constexpr std::size_t registers = 2 * trellises;

  /// States of all lanes, 0 at the beginning of a period: `low` has bits 0 to 3, and `highest` has bit 4 as bit 0 of a
  /// nibble.
  struct states {
    __m512i low;
    __m512i highest;
  };

  ECQ_AVX512 explicit four_trellises(const trellis& walk) {
    const two_lane_matrices& matrices = two_lane_matrices_of[walk.state_bits - trellis::min_state_bits];
    quantizers_of_parities_ = every_matrix(matrices.quantizers_of_parities);
    quantizers_of_state_ = every_matrix(matrices.quantizers_of_state);
    state_of_parities_ = every_matrix(matrices.state_of_parities);
    state_of_state_ = every_matrix(matrices.state_of_state);
    highest_of_parities_ = every_matrix(matrices.highest_of_parities);
    highest_of_state_ = every_matrix(matrices.highest_of_state);
  }

  /// Loads register `r` of a group of indices. Each of `places` has two registers, from `at` on.
  ECQ_AVX512 [[gnu::always_inline]] static inline __m512i load(std::uint8_t* const (&places)[trellises], std::size_t at,
                                                               std::size_t r) {
    return _mm512_loadu_si512(places[r / 2] + at + 64 * (r % 2));
  }

  /// Returns the lowest bits of a group of indices. Byte r of every eight bytes has the lowest bits of the same eight
  /// bytes of register r, the first one highest.
  ECQ_AVX512 [[gnu::always_inline]] static inline __m512i parities(std::uint8_t* const (&places)[trellises],
                                                                   std::size_t at) {
    // A matrix whose rows are eight indices maps 1 to their lowest bits. The 1 is in the byte of the register.
    __m512i lowest[registers];
    ECQ_UNROLL
    for (std::size_t i = 0; i < registers; ++i) {
      lowest[i] = _mm512_gf2p8affine_epi64_epi8(every_matrix(std::uint64_t{1} << (8 * i)), load(places, at, i), 0);
    }
    return sum_of(sum_of(lowest[0], lowest[1], lowest[2]), sum_of(lowest[3], lowest[4], lowest[5]),
                  _mm512_xor_si512(lowest[6], lowest[7]));
  }

  /// Moves all lanes on by four indices each, whose lowest bits are `parities`. Returns the quantisers in the layout of
  /// parities(), but with the first one lowest. `Highest` says whether there are 32 states.
  template <bool Highest>
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i step(states& lanes, __m512i parities) const {
    const __m512i before = lanes.low;
    lanes.low = products(parities, state_of_parities_, before, state_of_state_);
    if constexpr (Highest) {
      // Four steps take bit 4 of a state to bit 0, and no further.
      lanes.low = _mm512_xor_si512(lanes.low, lanes.highest);
      lanes.highest = products(parities, highest_of_parities_, before, highest_of_state_);
    }
    return products(parities, quantizers_of_parities_, before, quantizers_of_state_);
  }

  /// Returns the codes of register `r`, whose indices are `index`, given the quantisers that step() returned.
  ECQ_AVX512 [[gnu::always_inline]] static inline __m512i codes(__m512i index, __m512i quantizers, std::size_t r) {
    const __m512i own = _mm512_multishift_epi64_epi8(_mm512_load_si512(places_of_bits.of_byte[r]), quantizers);
    return _mm512_ternarylogic_epi32(_mm512_add_epi8(index, index), own, _mm512_set1_epi8(1), 0xF8);  // a | (b & c)
  }

 private:
  ECQ_AVX512 [[gnu::always_inline]] static inline __m512i sum_of(__m512i a, __m512i b, __m512i c) {
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
  }

  /// Returns the sum of two products.
  ECQ_AVX512 [[gnu::always_inline]] static inline __m512i products(__m512i a, __m512i by_a, __m512i b, __m512i by_b) {
    return _mm512_xor_si512(_mm512_gf2p8affine_epi64_epi8(a, by_a, 0), _mm512_gf2p8affine_epi64_epi8(b, by_b, 0));
  }

  __m512i quantizers_of_parities_, quantizers_of_state_;
  __m512i state_of_parities_, state_of_state_;
  __m512i highest_of_parities_, highest_of_state_;
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
