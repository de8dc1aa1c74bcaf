#pragma once
/// \file
/// The search for a path through a trellis with AVX2, eight lanes at once.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/quantize/trellis_lanes.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

/// Transposes eight rows of eight numbers.
ECQ_AVX2 inline void transpose(__m256 (&rows)[8]) {
  __m256 pairs[8], fours[8];
  ECQ_UNROLL
  for (std::size_t i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  ECQ_UNROLL
  for (std::size_t i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// Loads the weights of eight lanes in a group, one vector for each step.
ECQ_AVX2 inline void load_steps(const float* weights, __m256 (&steps)[4]) {
  __m256 lanes[4];
  ECQ_UNROLL
  for (std::size_t lane = 0; lane < 4; ++lane) {
    const __m128 low = _mm_loadu_ps(weights + lane * 4), high = _mm_loadu_ps(weights + lane * 4 + 16);
    lanes[lane] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
  const __m256 low_first = _mm256_unpacklo_ps(lanes[0], lanes[1]), low_last = _mm256_unpackhi_ps(lanes[0], lanes[1]);
  const __m256 high_first = _mm256_unpacklo_ps(lanes[2], lanes[3]), high_last = _mm256_unpackhi_ps(lanes[2], lanes[3]);
  steps[0] = _mm256_shuffle_ps(low_first, high_first, 0x44);
  steps[1] = _mm256_shuffle_ps(low_first, high_first, 0xee);
  steps[2] = _mm256_shuffle_ps(low_last, high_last, 0x44);
  steps[3] = _mm256_shuffle_ps(low_last, high_last, 0xee);
}

/// Returns all ones for the lanes that have no step `step`.
ECQ_AVX2 inline __m256i lanes_without(const lane_run& run, std::size_t step) {
  const __m256i now = _mm256_set1_epi32(static_cast<int>(step));
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run.first_steps));
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run.last_steps));
  return _mm256_or_si256(_mm256_cmpgt_epi32(first, now),
                         _mm256_xor_si256(_mm256_cmpgt_epi32(last, now), _mm256_set1_epi32(-1)));
}

/// Forward pass: finds the cheapest path to each state and stores the decisions that lead there. Returns the best last
/// state of each lane.
template <unsigned StateBits>
ECQ_EXACT_FLOAT ECQ_AVX2 inline __m256i walk_eight_lanes(const lane_run& run, float unreachable) {
  ECQ_EXACT_FLOAT_BODY
  constexpr trellis walk{.state_bits = StateBits};
  constexpr unsigned states = walk.states();
  __m256 both[2][states];  // costs before a step and after it, in turns
  const __m256i begin = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(run.states)));
  for (unsigned state = 0; state < states; ++state) {
    const __m256i there = _mm256_cmpeq_epi32(begin, _mm256_set1_epi32(static_cast<int>(state)));
    both[0][state] = _mm256_andnot_ps(_mm256_castsi256_ps(there), _mm256_set1_ps(unreachable));
  }
  const __m256 first_weight = _mm256_set1_ps(run.first_weight);
  const __m256 limits[2] = {_mm256_set1_ps(-run.limit), _mm256_set1_ps(run.limit)};
  const __m256 width = _mm256_set1_ps(1 / run.per_step);
  for (std::size_t group = 0; group < run.groups; ++group) {
    const bool at_end = group == 0 || group + 1 == run.groups;
    __m256 weights[4];
    load_steps(run.weights + group * group_symbols, weights);
    ECQ_NO_UNROLL
    for (std::size_t first = 0; first < rounds_per_group; first += 2) {
      ECQ_UNROLL
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const std::size_t step = first + turn;
        const __m256(&costs)[states] = both[turn];
        __m256(&next)[states] = both[1 - turn];
        const std::size_t at = (group * rounds_per_group + step) * 8;
        const __m256 bounded = _mm256_min_ps(_mm256_max_ps(weights[step], limits[0]), limits[1]);
        const __m256 distance = _mm256_sub_ps(bounded, first_weight);
        const __m256i place = _mm256_cvttps_epi32(_mm256_mul_ps(distance, _mm256_set1_ps(run.per_step)));
        const __m256 middle = _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(place), _mm256_set1_ps(0.5F)), width);
        const __m256 away = _mm256_sub_ps(distance, middle);
        alignas(32) std::int32_t cells[8];
        _mm256_store_si256(reinterpret_cast<__m256i*>(cells), place);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.places + at), place);
        __m256 rows[8];
        ECQ_UNROLL
        for (std::size_t lane = 0; lane < 8; ++lane) rows[lane] = _mm256_load_ps(run.cells + cells[lane] * 8);
        transpose(rows);
        __m256 added[4];
        ECQ_UNROLL
        for (std::size_t i = 0; i < 4; ++i) {
          added[i] = _mm256_add_ps(rows[i], _mm256_mul_ps(rows[i + 4], away));
        }
        __m256i decided = _mm256_setzero_si256();
        // Two loops, which GCC unrolls; of one loop over 32 states it would unroll half.
        ECQ_UNROLL
        for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
          ECQ_UNROLL
          for (unsigned i = 0; i < states / 2; ++i) {
            const unsigned state = quantizer * states / 2 + i;
            const __m256 even = _mm256_add_ps(costs[state_before(walk, state, 0)], added[2 * quantizer]);
            const __m256 odd = _mm256_add_ps(costs[state_before(walk, state, 1)], added[2 * quantizer + 1]);
            const __m256i is_odd = _mm256_castps_si256(_mm256_cmp_ps(odd, even, _CMP_LT_OQ));
            next[state] = _mm256_min_ps(odd, even);
            decided =
                _mm256_or_si256(decided, _mm256_and_si256(is_odd, _mm256_set1_epi32(static_cast<int>(1U << state))));
          }
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.decisions + at), decided);
        if (at_end) {
          const __m256 stay = _mm256_castsi256_ps(lanes_without(run, group * rounds_per_group + step));
          for (unsigned state = 0; state < states; ++state)
            next[state] = _mm256_blendv_ps(next[state], costs[state], stay);
        }
      }
    }
    __m256(&costs)[states] = both[0];
    __m256 least = costs[0];
    ECQ_UNROLL
    for (unsigned state = 1; state < states; ++state) least = _mm256_min_ps(least, costs[state]);
    ECQ_UNROLL
    for (unsigned state = 0; state < states; ++state) costs[state] = _mm256_sub_ps(costs[state], least);
  }
  const __m256(&costs)[states] = both[0];
  __m256 least = costs[0];
  __m256i best = _mm256_setzero_si256();
  for (unsigned state = 1; state < states; ++state) {
    const __m256i better = _mm256_castps_si256(_mm256_cmp_ps(costs[state], least, _CMP_LT_OQ));
    least = _mm256_min_ps(costs[state], least);
    best = _mm256_blendv_epi8(best, _mm256_set1_epi32(static_cast<int>(state)), better);
  }
  return best;
}

/// Finds the codes of eight lanes, as path_search::find() (trellis_search.hpp) defines them.
template <unsigned StateBits>
ECQ_AVX2 inline void search_eight_lanes(const lane_run& run, float unreachable) {
  constexpr trellis walk{.state_bits = StateBits};
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i from_state = _mm256_set1_epi32(static_cast<int>(walk.next(1, 0)));
  const __m256i from_parity = _mm256_set1_epi32(static_cast<int>(walk.next(0, 1)));
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(walk.states() - 1));
  __m256i state = walk_eight_lanes<StateBits>(run, unreachable);
  for (std::size_t group = run.groups; group-- > 0;) {
    const bool at_end = group == 0 || group + 1 == run.groups;
    __m256i four = _mm256_setzero_si256();
    for (std::size_t step = rounds_per_group; step-- > 0;) {
      const std::size_t at = (group * rounds_per_group + step) * 8;
      const __m256i decided = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run.decisions + at));
      const __m256i place = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run.places + at));
      const __m256i parity = _mm256_and_si256(_mm256_srlv_epi32(decided, state), one);
      const __m256i quantizer = _mm256_srli_epi32(state, static_cast<int>(StateBits) - 1);
      const __m256i candidate = _mm256_slli_epi32(_mm256_or_si256(_mm256_slli_epi32(quantizer, 1), parity), 3);
      const __m256i codes = _mm256_i32gather_epi32(run.codes, place, 4);
      const __m256i code = _mm256_and_si256(_mm256_srlv_epi32(codes, candidate), _mm256_set1_epi32(0xff));
      four = _mm256_or_si256(_mm256_slli_epi32(four, 8), code);
      const __m256i by_state = _mm256_and_si256(_mm256_sub_epi32(_mm256_setzero_si256(), quantizer), from_state);
      const __m256i by_parity = _mm256_and_si256(_mm256_sub_epi32(_mm256_setzero_si256(), parity), from_parity);
      const __m256i rest = _mm256_xor_si256(_mm256_xor_si256(state, by_state), by_parity);
      const __m256i before = _mm256_and_si256(_mm256_or_si256(_mm256_slli_epi32(rest, 1), quantizer), mask);
      state = at_end ? _mm256_blendv_epi8(before, state, lanes_without(run, group * rounds_per_group + step)) : before;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.out + group * group_symbols), four);
  }
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
