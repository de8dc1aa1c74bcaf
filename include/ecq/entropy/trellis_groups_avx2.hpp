#pragma once
/// \file
/// Replaces the indices of groups by the codes that they stand for on a trellis, in the registers of sinks of
/// rans_groups_avx2.hpp.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_walk_avx2.hpp"

namespace ecq::detail::avx2 {

/// States on a trellis of the lanes of `Chunks` chunks. One register holds all 32 states of a chunk. walk() takes all
/// groups of 128 indices of a chunk in ascending order and starts anew with each period.
///
/// A group has four registers, index[unit][part], of 16 lanes of 16 bits each, a lane's four indices in two of them.
/// With single codes, unit u has lanes 16 u, 16 u + 1, ..., and part p has indices 2 p and 2 p + 1 of a lane. With
/// `Pairs`, unit u has lanes u, u + 2, ..., and part p has indices p and p + 2.
template <std::size_t Chunks, bool Pairs>
class trellis_groups {
 public:
  explicit trellis_groups(const trellis& walk)
      : steps_(walk), period_((std::size_t{1} << walk.period_bits) / group_symbols) {}

  /// Replaces the indices of the next group of chunk number `c` by their codes.
  ECQ_AVX2 [[gnu::always_inline]] inline void walk(std::size_t c, __m256i (&index)[2][2]) {
    auto* const lanes = reinterpret_cast<__m256i*>(lanes_[c]);
    if (left_[c] == 0) {
      _mm256_storeu_si256(lanes, _mm256_setzero_si256());
      left_[c] = period_;
    }
    --left_[c];
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i places = _mm256_set1_epi16(Pairs ? 0x0401 : 0x0201);
    __m256i parities[2];
    ECQ_UNROLL
    for (std::size_t unit = 0; unit < 2; ++unit) {
      const __m256i first = _mm256_and_si256(index[unit][0], one);
      const __m256i second = _mm256_slli_epi16(_mm256_and_si256(index[unit][1], one), Pairs ? 1 : 2);
      parities[unit] = _mm256_maddubs_epi16(_mm256_or_si256(first, second), places);
    }
    const __m256i before = load(lanes_[c]);
    const __m256i after = step(before, _mm256_packus_epi16(parities[0], parities[1]));
    _mm256_storeu_si256(lanes, after);
    const __m256i quantizer[rounds_per_group] = {before, _mm256_srli_epi16(after, 4), _mm256_srli_epi16(after, 5),
                                                 _mm256_srli_epi16(after, 6)};
    ECQ_UNROLL
    for (std::size_t unit = 0; unit < 2; ++unit) {
      ECQ_UNROLL
      for (std::size_t part = 0; part < 2; ++part) {
        const __m256i first = quantizer[Pairs ? part : 2 * part];
        const __m256i second = quantizer[Pairs ? part + 2 : 2 * part + 1];
        const __m256i both = unit == 0 ? _mm256_unpacklo_epi8(first, second) : _mm256_unpackhi_epi8(first, second);
        const __m256i of = index[unit][part];
        index[unit][part] = _mm256_add_epi8(_mm256_add_epi8(of, of), _mm256_and_si256(both, one));
      }
    }
  }

 private:
  /// Returns the lanes' bytes (trellis_step_tables) after `before` and four indices of these parities, for any number
  /// of states.
  ECQ_AVX2 [[gnu::always_inline]] inline __m256i step(__m256i before, __m256i parities) const {
    const __m256i lowest = _mm256_and_si256(before, _mm256_set1_epi8(15));
    const __m256i highest = _mm256_cmpgt_epi8(_mm256_setzero_si256(), before);
    const __m256i from_state =
        _mm256_xor_si256(_mm256_shuffle_epi8(in_both_halves(steps_.from_state), lowest),
                         _mm256_and_si256(highest, _mm256_set1_epi8(static_cast<char>(steps_.from_highest))));
    return _mm256_xor_si256(_mm256_shuffle_epi8(in_both_halves(steps_.from_parities), parities), from_state);
  }

  trellis_step_tables steps_;
  std::size_t period_;             ///< groups between two returns to state 0
  std::size_t left_[Chunks] = {};  ///< groups left before the next return
  /// Bytes of trellis_step_tables after the previous group: lanes 0 to 7, 16 to 23, 8 to 15, 24 to 31.
  std::uint8_t lanes_[Chunks][lane_count];
};

}  // namespace ecq::detail::avx2

#endif
