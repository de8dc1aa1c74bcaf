#pragma once
/// \file
/// AVX2 kernel of extend_paths() (survivor_paths.hpp), for eight states and more.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/calibrated/survivor_run.hpp"
#include "ecq/quantize/trellis_lanes.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

/// Layout of numbers of all states, 8 to a vector, and the places of the numbers of the states before them.
template <unsigned StateBits>
struct state_vectors {
  static constexpr trellis walk{.state_bits = StateBits};
  static constexpr std::size_t count = walk.states() / 8;

  /// Returns, for each state of a vector, the place from which take_before() takes the number of the state that an
  /// index of `parity` leads from.
  ECQ_AVX2 static __m256i places_before(std::size_t vector, unsigned parity) {
    const auto place = [&](unsigned at) {
      const unsigned before = state_before(walk, static_cast<unsigned>(8 * vector) + at, parity);
      if (count == 1) return static_cast<int>(before);
      const unsigned half = before / 2 % 8;  // among those of the same quantiser
      return static_cast<int>((half & 1U) | (half & 2U) << 1 | (half & 4U) >> 1);
    };
    return _mm256_setr_epi32(place(0), place(1), place(2), place(3), place(4), place(5), place(6), place(7));
  }

  /// Gives each state the number of a state before it. Only the even states of vectors 2 i and 2 i + 1 lead to the
  /// states of vector i, and only their odd states to those of vector i + count / 2.
  ECQ_AVX2 [[gnu::always_inline]] static void take_before(__m256 (&numbers)[count], const __m256i (&places)[count]) {
    if constexpr (count == 1) {
      numbers[0] = _mm256_permutevar8x32_ps(numbers[0], places[0]);
    } else {
      __m256 taken[count];
      ECQ_UNROLL
      for (std::size_t i = 0; i < count / 2; ++i) {
        const __m256 even = _mm256_shuffle_ps(numbers[2 * i], numbers[2 * i + 1], 0x88);
        const __m256 odd = _mm256_shuffle_ps(numbers[2 * i], numbers[2 * i + 1], 0xdd);
        taken[i] = _mm256_permutevar8x32_ps(even, places[i]);
        taken[i + count / 2] = _mm256_permutevar8x32_ps(odd, places[i + count / 2]);
      }
      ECQ_UNROLL
      for (std::size_t i = 0; i < count; ++i) numbers[i] = taken[i];
    }
  }
};

template <unsigned StateBits>
ECQ_EXACT_FLOAT ECQ_AVX2 inline void extend_paths(const survivor_run& run) {
  ECQ_EXACT_FLOAT_BODY
  using vectors = state_vectors<StateBits>;
  constexpr std::size_t count = vectors::count, states = 8 * count;
  const __m256 pushed = _mm256_set1_ps(0x1.8p23F);
  const __m256 limits[2] = {_mm256_set1_ps(-run.largest_target), _mm256_set1_ps(run.largest_target)};
  const __m256 step = _mm256_set1_ps(run.step), per_step = _mm256_set1_ps(1.0F / run.step);
  const __m256 offsets[2] = {_mm256_setr_ps(0, 1, 0, 1, 0, 1, 0, 1), _mm256_setr_ps(2, 3, 2, 3, 2, 3, 2, 3)};
  __m256i from[2][count];
  __m256 costs[count];
  for (std::size_t i = 0; i < count; ++i) {
    for (unsigned parity = 0; parity < 2; ++parity) from[parity][i] = vectors::places_before(i, parity);
    costs[i] = _mm256_loadu_ps(run.costs + 8 * i);
  }
  for (std::size_t at = 0; at < run.count * count; ++at) _mm256_storeu_ps(run.futures + at * 8, _mm256_setzero_ps());
  for (std::size_t at = 0; at < run.count; ++at) {
    const __m256 importance = _mm256_broadcast_ss(run.importance + at);
    __m256 sums[2][count], made[2][count];
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      const __m256 future = _mm256_loadu_ps(run.futures + at * states + 8 * i);
      const __m256 exact = _mm256_mul_ps(_mm256_add_ps(_mm256_broadcast_ss(run.targets + at), future), per_step);
      const __m256 bounded = _mm256_max_ps(_mm256_min_ps(exact, limits[1]), limits[0]);
      ECQ_UNROLL
      for (std::size_t parity = 0; parity < 2; ++parity) {
        const __m256 scaled = _mm256_mul_ps(_mm256_sub_ps(bounded, offsets[parity]), _mm256_set1_ps(0.25F));
        const __m256 fourth = _mm256_sub_ps(_mm256_add_ps(scaled, pushed), pushed);
        const __m256 code = _mm256_add_ps(_mm256_mul_ps(fourth, _mm256_set1_ps(4.0F)), offsets[parity]);
        const __m256i index = _mm256_srai_epi32(_mm256_cvttps_epi32(code), 1);
        made[parity][i] = code;
        const __m256 away = _mm256_sub_ps(exact, code);
        const __m256 error = _mm256_mul_ps(_mm256_mul_ps(away, away), importance);
        const __m256 added = _mm256_add_ps(error, _mm256_i32gather_ps(run.index_costs, index, 4));
        sums[parity][i] = _mm256_add_ps(costs[i], added);
      }
    }
    for (std::size_t parity = 0; parity < 2; ++parity) {
      vectors::take_before(sums[parity], from[parity]);
      vectors::take_before(made[parity], from[parity]);
    }
    const __m256 weight = _mm256_broadcast_ss(run.weights + at);
    __m256 errors[count];
    __m256i before[count];
    run.odd[at] = 0;
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      const __m256 is_odd = _mm256_cmp_ps(sums[1][i], sums[0][i], _CMP_LT_OQ);
      costs[i] = _mm256_min_ps(sums[1][i], sums[0][i]);
      const __m256 code = _mm256_blendv_ps(made[0][i], made[1][i], is_odd);
      before[i] = _mm256_blendv_epi8(from[0][i], from[1][i], _mm256_castps_si256(is_odd));
      run.odd[at] |= static_cast<std::uint32_t>(_mm256_movemask_ps(is_odd)) << (8 * i);
      const __m256i wide = _mm256_cvttps_epi32(code);
      const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(run.codes + at * states + 8 * i), _mm_packs_epi16(half, half));
      errors[i] = _mm256_sub_ps(_mm256_mul_ps(code, step), weight);
    }
    const float* const feedback = run.feedback + at * run.stride;
    for (std::size_t later = at + 1; later < run.count; ++later) {
      const __m256 factor = _mm256_broadcast_ss(feedback + later);
      float* const to = run.futures + later * states;
      __m256 futures[count];
      ECQ_UNROLL
      for (std::size_t i = 0; i < count; ++i) futures[i] = _mm256_loadu_ps(to + 8 * i);
      vectors::take_before(futures, before);
      ECQ_UNROLL
      for (std::size_t i = 0; i < count; ++i) {
        _mm256_storeu_ps(to + 8 * i, _mm256_sub_ps(futures[i], _mm256_mul_ps(factor, errors[i])));
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) _mm256_storeu_ps(run.costs + 8 * i, costs[i]);
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
