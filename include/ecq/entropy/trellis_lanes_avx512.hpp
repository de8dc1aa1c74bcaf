#pragma once
/// \file
/// Steps of the lanes of a trellis in AVX-512 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_step_tables.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Four steps of 16 lanes at once. A lane has the lowest byte of 32 bits: bits 0 to 4 are the state that the steps lead
/// to, bits 5 to 7 the quantisers of the second, third and fourth step. The first quantiser is bit 0 of the byte
/// before.
class trellis_lanes {
 public:
  static constexpr unsigned lanes_of_register = 16;
  static constexpr unsigned registers = lane_count / lanes_of_register;

  ECQ_AVX512 explicit trellis_lanes(const trellis& walk) {
    const trellis_step_tables steps(walk);
    std::uint8_t of_parities[64], of_states[64], every_lane[64];
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned highest = i / 16 % 2 == 0 ? 0U : steps.from_highest;  // bit 5 of i is a quantiser
      of_states[i] = moved(steps.from_state[i % 16] ^ highest);
      of_parities[i] = moved(steps.from_parities[i % 16]);
      every_lane[i] = static_cast<std::uint8_t>(i % 16 / 4 * 4);
    }
    from_parities_ = _mm512_loadu_si512(of_parities);
    from_state_ = _mm512_loadu_si512(of_states);
    to_all_four_ = _mm512_loadu_si512(every_lane);
  }

  /// Moves `lanes` on by four indices each, 64 bytes that are 1 where an index is odd and 0 elsewhere. Returns which of
  /// the indices are of the second quantiser.
  ECQ_AVX512 [[gnu::always_inline]] inline __mmask64 step(__m512i& lanes, __m512i odd) const {
    const __m512i pairs = _mm512_maddubs_epi16(odd, _mm512_set1_epi32(0x08040201));
    const __m512i parities = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    const __m512i before = lanes;
    lanes =
        _mm512_xor_si512(_mm512_shuffle_epi8(from_parities_, parities), _mm512_permutexvar_epi8(before, from_state_));
    const __m512i quantizers =  // the highest three bits of `lanes`, the others of `before`
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(static_cast<char>(0xE0)), lanes, before, 0xCA);
    return _mm512_test_epi8_mask(_mm512_shuffle_epi8(quantizers, to_all_four_),
                                 _mm512_set1_epi32(static_cast<int>(0x80402001U)));
  }

  /// The state that a lane's byte tells of.
  static std::uint8_t state(const trellis& walk, std::uint32_t byte) noexcept {
    return static_cast<std::uint8_t>(byte & 31U & (walk.states() - 1U));
  }

 private:
  /// A byte of trellis_step_tables as this class has it.
  static std::uint8_t moved(unsigned byte) {
    return static_cast<std::uint8_t>((byte & 15U) | byte >> 7 << 4 | (byte & 0x70U) << 1);
  }

  __m512i from_parities_, from_state_, to_all_four_;
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
