#pragma once
/// \file
/// extend_paths of survivor_paths.hpp for eight states with AVX2.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/quantize/trellis_lanes.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

/// What extend_paths reads and writes.
struct eight_survivors {
  float step;
  const float* index_costs;
  float largest_code;
  std::size_t count;
  const float* weights;
  const float* targets;
  const float* importance;
  const float* feedback;
  std::size_t stride;
  float* costs;
  float* futures;
  std::int8_t* codes;
  std::uint32_t* odd;
};

/// The states from which an index of `parity` leads to each state.
ECQ_AVX2 inline __m256i states_before(unsigned parity) {
  constexpr trellis walk{.state_bits = 3};
  const auto before = [&](unsigned state) { return static_cast<int>(state_before(walk, state, parity)); };
  return _mm256_setr_epi32(before(0), before(1), before(2), before(3), before(4), before(5), before(6), before(7));
}

ECQ_EXACT_FLOAT ECQ_AVX2 inline void extend_paths(const eight_survivors& run) {
  ECQ_EXACT_FLOAT_BODY
  const __m256 pushed = _mm256_set1_ps(0x1.8p23F), sign = _mm256_set1_ps(-0.0F);
  const __m256 step = _mm256_set1_ps(run.step), per_step = _mm256_set1_ps(1.0F / run.step);
  const __m256i quantizers = _mm256_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1);
  const __m256 second = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_setzero_si256(), quantizers));
  const __m256 offsets[2] = {_mm256_setr_ps(0, -1, 0, -1, 0, -1, 0, -1), _mm256_setr_ps(2, 1, 2, 1, 2, 1, 2, 1)};
  const __m256i from[2] = {states_before(0), states_before(1)};
  __m256 costs = _mm256_loadu_ps(run.costs);
  for (std::size_t at = 0; at < run.count; ++at) _mm256_storeu_ps(run.futures + at * 8, _mm256_setzero_ps());
  for (std::size_t at = 0; at < run.count; ++at) {
    const __m256 target = _mm256_add_ps(_mm256_broadcast_ss(run.targets + at), _mm256_loadu_ps(run.futures + at * 8));
    const __m256 exact = _mm256_mul_ps(target, per_step);
    const __m256 bounded = _mm256_min_ps(_mm256_andnot_ps(sign, exact), _mm256_set1_ps(run.largest_code));
    const __m256 importance = _mm256_broadcast_ss(run.importance + at);
    __m256 sums[2], made[2];
    ECQ_UNROLL
    for (std::size_t parity = 0; parity < 2; ++parity) {
      const __m256 scaled = _mm256_mul_ps(_mm256_sub_ps(bounded, offsets[parity]), _mm256_set1_ps(0.25F));
      const __m256 fourth = _mm256_sub_ps(_mm256_add_ps(scaled, pushed), pushed);
      __m256 code = _mm256_add_ps(_mm256_mul_ps(fourth, _mm256_set1_ps(4.0F)), offsets[parity]);
      if (parity == 0) {
        const __m256 near_zero = _mm256_cmp_ps(bounded, _mm256_set1_ps(1.5F), _CMP_LT_OQ);
        code = _mm256_andnot_ps(_mm256_and_ps(near_zero, second), code);
      }
      const __m256i index = _mm256_srli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(code), quantizers), 1);
      made[parity] = _mm256_or_ps(code, _mm256_and_ps(exact, sign));
      const __m256 away = _mm256_sub_ps(exact, made[parity]);
      const __m256 error = _mm256_mul_ps(_mm256_mul_ps(away, away), importance);
      const __m256 added = _mm256_add_ps(error, _mm256_i32gather_ps(run.index_costs, index, 4));
      sums[parity] = _mm256_permutevar8x32_ps(_mm256_add_ps(costs, added), from[parity]);
      made[parity] = _mm256_permutevar8x32_ps(made[parity], from[parity]);
    }
    const __m256 is_odd = _mm256_cmp_ps(sums[1], sums[0], _CMP_LT_OQ);
    costs = _mm256_min_ps(sums[1], sums[0]);
    const __m256 code = _mm256_blendv_ps(made[0], made[1], is_odd);
    const __m256i before = _mm256_blendv_epi8(from[0], from[1], _mm256_castps_si256(is_odd));
    run.odd[at] = static_cast<std::uint32_t>(_mm256_movemask_ps(is_odd));
    const __m256i wide = _mm256_cvttps_epi32(code);
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(run.codes + at * 8), _mm_packs_epi16(half, half));
    const __m256 errors = _mm256_sub_ps(_mm256_mul_ps(code, step), _mm256_broadcast_ss(run.weights + at));
    const float* const feedback = run.feedback + at * run.stride;
    for (std::size_t later = at + 1; later < run.count; ++later) {
      const __m256 future = _mm256_permutevar8x32_ps(_mm256_loadu_ps(run.futures + later * 8), before);
      const __m256 moved = _mm256_sub_ps(future, _mm256_mul_ps(_mm256_broadcast_ss(feedback + later), errors));
      _mm256_storeu_ps(run.futures + later * 8, moved);
    }
  }
  alignas(32) float all[8];
  _mm256_store_ps(all, costs);
  float least = all[0];
  for (std::size_t state = 1; state < 8; ++state) least = all[state] < least ? all[state] : least;
  _mm256_storeu_ps(run.costs, _mm256_sub_ps(costs, _mm256_set1_ps(least)));
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
