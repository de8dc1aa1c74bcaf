#pragma once
/// \file
/// The search for a path through a trellis with 64-bit Arm's Advanced SIMD, four lanes at once.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/quantize/trellis_lanes.hpp"

namespace ecq::detail::neon {

/// Transposes four rows of four numbers.
inline void transpose(float32x4_t (&rows)[4]) {
  const float32x4x2_t even = vtrnq_f32(rows[0], rows[1]), odd = vtrnq_f32(rows[2], rows[3]);
  ECQ_UNROLL
  for (std::size_t i = 0; i < 2; ++i) {
    rows[i] = vcombine_f32(vget_low_f32(even.val[i]), vget_low_f32(odd.val[i]));
    rows[i + 2] = vcombine_f32(vget_high_f32(even.val[i]), vget_high_f32(odd.val[i]));
  }
}

/// Returns all ones for the lanes that have no step `step`.
inline uint32x4_t lanes_without(const lane_run& run, std::size_t step) {
  const int32x4_t now = vdupq_n_s32(static_cast<std::int32_t>(step));
  return vorrq_u32(vcgtq_s32(vld1q_s32(run.first_steps), now), vcleq_s32(vld1q_s32(run.last_steps), now));
}

/// Sets `added` to the costs of the candidates of four lanes, and `place` to the cell of each weight.
ECQ_EXACT_FLOAT inline void add_costs(const lane_run& run, float32x4_t weights, int32x4_t& place,
                                      float32x4_t (&added)[4]) {
  ECQ_EXACT_FLOAT_BODY
  const float32x4_t bounded = vminq_f32(vmaxq_f32(weights, vdupq_n_f32(-run.limit)), vdupq_n_f32(run.limit));
  const float32x4_t distance = vsubq_f32(bounded, vdupq_n_f32(run.first_weight));
  place = vcvtq_s32_f32(vmulq_n_f32(distance, run.per_step));
  const float32x4_t middle = vmulq_n_f32(vaddq_f32(vcvtq_f32_s32(place), vdupq_n_f32(0.5F)), 1 / run.per_step);
  const float32x4_t away = vsubq_f32(distance, middle);
  std::int32_t cells[4];
  vst1q_s32(cells, place);
  float32x4_t slopes[4];
  ECQ_UNROLL
  for (std::size_t lane = 0; lane < 4; ++lane) {
    added[lane] = vld1q_f32(run.cells + cells[lane] * 8);
    slopes[lane] = vld1q_f32(run.cells + cells[lane] * 8 + 4);
  }
  transpose(added);
  transpose(slopes);
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) added[i] = vaddq_f32(added[i], vmulq_f32(slopes[i], away));
}

/// Forward pass: finds the cheapest path to each state and stores the decisions that lead there. Returns the best last
/// state of each lane.
template <unsigned StateBits>
ECQ_EXACT_FLOAT inline uint32x4_t walk_four_lanes(const lane_run& run, float unreachable) {
  ECQ_EXACT_FLOAT_BODY
  constexpr trellis walk{.state_bits = StateBits};
  constexpr unsigned states = walk.states();
  float32x4_t both[2][states];  // costs before a step and after it, in turns
  for (unsigned state = 0; state < states; ++state) {
    float begin[4];
    for (std::size_t lane = 0; lane < 4; ++lane) begin[lane] = run.states[lane] == state ? 0 : unreachable;
    both[0][state] = vld1q_f32(begin);
  }
  for (std::size_t group = 0; group < run.groups; ++group) {
    const bool at_end = group == 0 || group + 1 == run.groups;
    const float32x4x4_t weights = vld4q_f32(run.weights + group * group_symbols);
    ECQ_UNROLL  // so that costs of few states stay in registers
        for (std::size_t step = 0; step < rounds_per_group; ++step) {
      const float32x4_t(&costs)[states] = both[step % 2];
      float32x4_t(&next)[states] = both[1 - step % 2];
      const std::size_t at = (group * rounds_per_group + step) * 4;
      int32x4_t place;
      float32x4_t added[4];
      add_costs(run, weights.val[step], place, added);
      vst1q_s32(run.places + at, place);
      uint32x4_t decided = vdupq_n_u32(0);
      ECQ_UNROLL
      for (unsigned state = 0; state < states; ++state) {
        const unsigned quantizer = state / (states / 2);
        const float32x4_t even = vaddq_f32(costs[state_before(walk, state, 0)], added[2 * quantizer]);
        const float32x4_t odd = vaddq_f32(costs[state_before(walk, state, 1)], added[2 * quantizer + 1]);
        const uint32x4_t is_odd = vcltq_f32(odd, even);
        next[state] = vbslq_f32(is_odd, odd, even);
        decided = vorrq_u32(decided, vandq_u32(is_odd, vdupq_n_u32(1U << state)));
      }
      vst1q_s32(run.decisions + at, vreinterpretq_s32_u32(decided));
      if (at_end) {
        const uint32x4_t stay = lanes_without(run, group * rounds_per_group + step);
        for (unsigned state = 0; state < states; ++state) next[state] = vbslq_f32(stay, costs[state], next[state]);
      }
    }
    float32x4_t(&costs)[states] = both[0];
    float32x4_t least = costs[0];
    for (unsigned state = 1; state < states; ++state) least = vminq_f32(least, costs[state]);
    for (unsigned state = 0; state < states; ++state) costs[state] = vsubq_f32(costs[state], least);
  }
  const float32x4_t(&costs)[states] = both[0];
  float32x4_t least = costs[0];
  uint32x4_t best = vdupq_n_u32(0);
  for (unsigned state = 1; state < states; ++state) {
    const uint32x4_t better = vcltq_f32(costs[state], least);
    least = vminq_f32(costs[state], least);
    best = vbslq_u32(better, vdupq_n_u32(state), best);
  }
  return best;
}

/// Finds the codes of four lanes, as path_search::find() (trellis_search.hpp) defines them.
template <unsigned StateBits>
inline void search_four_lanes(const lane_run& run, float unreachable) {
  constexpr trellis walk{.state_bits = StateBits};
  const uint32x4_t from_state = vdupq_n_u32(walk.next(1, 0)), from_parity = vdupq_n_u32(walk.next(0, 1));
  const uint32x4_t mask = vdupq_n_u32(walk.states() - 1), one = vdupq_n_u32(1), byte = vdupq_n_u32(0xFF);
  // A shift to the right is a shift to the left by a negative number.
  const auto shifted = [](uint32x4_t value, uint32x4_t by) {
    return vshlq_u32(value, vnegq_s32(vreinterpretq_s32_u32(by)));
  };
  uint32x4_t state = walk_four_lanes<StateBits>(run, unreachable);
  for (std::size_t group = run.groups; group-- > 0;) {
    const bool at_end = group == 0 || group + 1 == run.groups;
    uint32x4_t four = vdupq_n_u32(0);
    for (std::size_t step = rounds_per_group; step-- > 0;) {
      const std::size_t at = (group * rounds_per_group + step) * 4;
      const uint32x4_t decided = vreinterpretq_u32_s32(vld1q_s32(run.decisions + at));
      std::int32_t codes[4];
      for (std::size_t lane = 0; lane < 4; ++lane) codes[lane] = run.codes[run.places[at + lane]];
      const uint32x4_t parity = vandq_u32(shifted(decided, state), one);
      const uint32x4_t quantizer = vshrq_n_u32(state, static_cast<int>(StateBits) - 1);
      const uint32x4_t candidate = vshlq_n_u32(vorrq_u32(vshlq_n_u32(quantizer, 1), parity), 3);
      const uint32x4_t code = vandq_u32(shifted(vreinterpretq_u32_s32(vld1q_s32(codes)), candidate), byte);
      four = vorrq_u32(vshlq_n_u32(four, 8), code);
      const uint32x4_t rest =
          veorq_u32(veorq_u32(state, vmulq_u32(quantizer, from_state)), vmulq_u32(parity, from_parity));
      const uint32x4_t before = vandq_u32(vorrq_u32(vshlq_n_u32(rest, 1), quantizer), mask);
      state = at_end ? vbslq_u32(lanes_without(run, group * rounds_per_group + step), state, before) : before;
    }
    vst1q_u8(run.out + group * group_symbols, vreinterpretq_u8_u32(four));
  }
}

}  // namespace ecq::detail::neon

#endif
