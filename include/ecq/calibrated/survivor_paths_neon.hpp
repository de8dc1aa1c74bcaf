#pragma once
/// \file
/// Kernel of extend_paths() (survivor_paths.hpp) with 64-bit Arm's Advanced SIMD, for eight states and more.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/calibrated/survivor_run.hpp"
#include "ecq/quantize/trellis_lanes.hpp"

namespace ecq::detail::neon {

/// Layout of numbers of all states, 4 to a vector, and the places of the numbers of the states before them.
template <unsigned StateBits>
struct state_vectors {
  static constexpr trellis walk{.state_bits = StateBits};
  static constexpr std::size_t count = walk.states() / 4;
  /// Whether both parities lead to the states of a vector from the same four states of a quantiser; otherwise from
  /// eight.
  static constexpr bool from_four = (walk.next(0, 1) & ~3U) == 0;

  /// Returns, for each state of a vector, the bytes from which take_before() takes the number of the state that an
  /// index of `parity` leads from.
  static uint8x16_t places_before(std::size_t vector, unsigned parity) {
    std::uint8_t bytes[16];
    for (unsigned at = 0; at < 16; ++at) {
      const unsigned before = state_before(walk, static_cast<unsigned>(4 * vector) + at / 4, parity);
      const unsigned place = before / 2 % (from_four ? 4 : 8);  // among those of the same quantiser
      bytes[at] = static_cast<std::uint8_t>(4 * place + at % 4);
    }
    return vld1q_u8(bytes);
  }

  /// Gives each state the number of a state before it. Even states lead to the lower half of the states and odd ones to
  /// the upper half: four states to the four of a vector, or eight to the eight of two vectors.
  [[gnu::always_inline]] static void take_before(float32x4_t (&numbers)[count], const uint8x16_t (&places)[count]) {
    uint8x16_t sources[count];
    ECQ_UNROLL
    for (std::size_t i = 0; i < count / 2; ++i) {
      sources[i] = vreinterpretq_u8_f32(vuzp1q_f32(numbers[2 * i], numbers[2 * i + 1]));
      sources[i + count / 2] = vreinterpretq_u8_f32(vuzp2q_f32(numbers[2 * i], numbers[2 * i + 1]));
    }
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (from_four) {
        numbers[i] = vreinterpretq_f32_u8(vqtbl1q_u8(sources[i], places[i]));
      } else {
        numbers[i] = vreinterpretq_f32_u8(vqtbl2q_u8({{sources[i & ~1UL], sources[i | 1]}}, places[i]));
      }
    }
  }
};

template <unsigned StateBits>
ECQ_EXACT_FLOAT inline void extend_paths(const survivor_run& run) {
  ECQ_EXACT_FLOAT_BODY
  using vectors = state_vectors<StateBits>;
  constexpr std::size_t count = vectors::count, states = 4 * count;
  constexpr float offsets[2][4] = {{0, 1, 0, 1}, {2, 3, 2, 3}};  // of states, by the parity of the index
  constexpr std::uint32_t state_flags[4] = {1, 2, 4, 8};
  const float32x4_t pushed = vdupq_n_f32(0x1.8p23F);
  const float per_step = 1.0F / run.step;
  const uint32x4_t flags = vld1q_u32(state_flags);
  uint8x16_t from[2][count];
  float32x4_t costs[count];
  for (std::size_t i = 0; i < count; ++i) {
    for (unsigned parity = 0; parity < 2; ++parity) from[parity][i] = vectors::places_before(i, parity);
    costs[i] = vld1q_f32(run.costs + 4 * i);
  }
  for (std::size_t at = 0; at < run.count * count; ++at) vst1q_f32(run.futures + at * 4, vdupq_n_f32(0));
  for (std::size_t at = 0; at < run.count; ++at) {
    float32x4_t sums[2][count], made[2][count];
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      const float32x4_t future = vld1q_f32(run.futures + at * states + 4 * i);
      const float32x4_t exact = vmulq_n_f32(vaddq_f32(vdupq_n_f32(run.targets[at]), future), per_step);
      // Of a number and NaN, these return the number, like the comparisons in survivor_paths.hpp.
      const float32x4_t below = vminnmq_f32(exact, vdupq_n_f32(run.largest_target));
      const float32x4_t bounded = vmaxnmq_f32(below, vdupq_n_f32(-run.largest_target));
      ECQ_UNROLL
      for (std::size_t parity = 0; parity < 2; ++parity) {
        const float32x4_t offset = vld1q_f32(offsets[parity]);
        const float32x4_t scaled = vmulq_n_f32(vsubq_f32(bounded, offset), 0.25F);
        const float32x4_t fourth = vsubq_f32(vaddq_f32(scaled, pushed), pushed);
        const float32x4_t code = vaddq_f32(vmulq_n_f32(fourth, 4.0F), offset);
        std::int32_t indices[4];
        vst1q_s32(indices, vshrq_n_s32(vcvtq_s32_f32(code), 1));
        const float bits[4] = {run.index_costs[indices[0]], run.index_costs[indices[1]], run.index_costs[indices[2]],
                               run.index_costs[indices[3]]};
        made[parity][i] = code;
        const float32x4_t away = vsubq_f32(exact, code);
        const float32x4_t error = vmulq_n_f32(vmulq_f32(away, away), run.importance[at]);
        sums[parity][i] = vaddq_f32(costs[i], vaddq_f32(error, vld1q_f32(bits)));
      }
    }
    ECQ_UNROLL
    for (std::size_t parity = 0; parity < 2; ++parity) {
      vectors::take_before(sums[parity], from[parity]);
      vectors::take_before(made[parity], from[parity]);
    }
    float32x4_t errors[count];
    uint8x16_t before[count];
    int16x4_t codes[count];
    run.odd[at] = 0;
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; ++i) {
      const uint32x4_t is_odd = vcltq_f32(sums[1][i], sums[0][i]);
      costs[i] = vbslq_f32(is_odd, sums[1][i], sums[0][i]);
      const float32x4_t code = vbslq_f32(is_odd, made[1][i], made[0][i]);
      before[i] = vbslq_u8(vreinterpretq_u8_u32(is_odd), from[1][i], from[0][i]);
      run.odd[at] |= vaddvq_u32(vandq_u32(is_odd, flags)) << (4 * i);
      codes[i] = vmovn_s32(vcvtq_s32_f32(code));
      errors[i] = vsubq_f32(vmulq_n_f32(code, run.step), vdupq_n_f32(run.weights[at]));
    }
    ECQ_UNROLL
    for (std::size_t i = 0; i < count; i += 2) {
      vst1_s8(run.codes + at * states + 4 * i, vmovn_s16(vcombine_s16(codes[i], codes[i + 1])));
    }
    const float* const feedback = run.feedback + at * run.stride;
    for (std::size_t later = at + 1; later < run.count; ++later) {
      float* const to = run.futures + later * states;
      float32x4_t futures[count];
      ECQ_UNROLL
      for (std::size_t i = 0; i < count; ++i) futures[i] = vld1q_f32(to + 4 * i);
      vectors::take_before(futures, before);
      ECQ_UNROLL
      for (std::size_t i = 0; i < count; ++i) {
        vst1q_f32(to + 4 * i, vsubq_f32(futures[i], vmulq_n_f32(errors[i], feedback[later])));
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) vst1q_f32(run.costs + 4 * i, costs[i]);
}

}  // namespace ecq::detail::neon

#endif
