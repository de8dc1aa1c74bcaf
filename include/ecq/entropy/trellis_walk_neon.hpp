#pragma once
/// \file
/// Replaces indices by the codes that they stand for on a trellis, in registers of 64-bit Arm.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_step_tables.hpp"

namespace ecq::detail::neon {

/// Replaces indices by their codes like codes_of_groups() of trellis_walk_avx2.hpp.
inline void codes_of_groups(const trellis& walk, std::uint8_t* indices, std::size_t count, std::uint8_t* states) {
  constexpr unsigned registers = lane_count / 4;
  constexpr std::int8_t place_bytes[16] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
  constexpr std::uint8_t bit_bytes[16] = {0x01, 0x10, 0x20, 0x40, 0x01, 0x10, 0x20, 0x40,
                                          0x01, 0x10, 0x20, 0x40, 0x01, 0x10, 0x20, 0x40};
  constexpr std::uint8_t lane_bytes[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  const trellis_step_tables& steps = tables_of(walk);
  const uint8x16_t from_parities = vld1q_u8(steps.from_parities), from_state = vld1q_u8(steps.from_state);
  const uint8x16_t from_highest = vdupq_n_u8(steps.from_highest);
  const int8x16_t places = vld1q_s8(place_bytes);
  const uint8x16_t to_all_four = vld1q_u8(lane_bytes);
  const uint8x16_t bits = vld1q_u8(bit_bytes);
  uint8x16_t lanes[registers];
  for (uint8x16_t& four : lanes) four = vdupq_n_u8(0);
  for (std::size_t at = 0; at < count; at += group_symbols) {
    ECQ_UNROLL
    for (unsigned i = 0; i < registers; ++i) {
      std::uint8_t* const place = indices + at + 16 * i;
      const uint8x16_t index = vld1q_u8(place);
      const uint8x16_t odd_indices = vshlq_u8(vandq_u8(index, vdupq_n_u8(1)), places);
      const uint8x16_t parities = vreinterpretq_u8_u32(vpaddlq_u16(vpaddlq_u8(odd_indices)));
      const uint8x16_t before = lanes[i];
      const uint8x16_t highest = vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(before), 7));
      const uint8x16_t from_lowest = vqtbl1q_u8(from_state, vandq_u8(before, vdupq_n_u8(15)));
      const uint8x16_t after =
          veorq_u8(veorq_u8(vqtbl1q_u8(from_parities, parities), from_lowest), vandq_u8(highest, from_highest));
      lanes[i] = after;
      const uint8x16_t quantizers = vorrq_u8(vandq_u8(before, vdupq_n_u8(1)), vandq_u8(after, vdupq_n_u8(0x70)));
      const uint8x16_t odd = vtstq_u8(vqtbl1q_u8(quantizers, to_all_four), bits);
      vst1q_u8(place, vsubq_u8(vaddq_u8(index, index), odd));
    }
  }
  std::uint32_t bytes[4];
  for (unsigned i = 0; i < registers; ++i) {
    vst1q_u32(bytes, vreinterpretq_u32_u8(lanes[i]));
    for (unsigned lane = 0; lane < 4; ++lane)
      states[4 * i + lane] = trellis_step_tables::state(walk, bytes[lane] & 0xffU);
  }
}

}  // namespace ecq::detail::neon

#endif
