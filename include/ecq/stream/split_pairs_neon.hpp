#pragma once
/// \file
/// Conversion of pairs of nibbles to symbols in Advanced SIMD registers of 64-bit Arm, 32 at a time.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/stream/escape_cursor.hpp"

namespace ecq::detail {

inline std::size_t split_pairs_neon(const nibble_list& list, const std::uint8_t* pairs, std::size_t count,
                                    std::uint8_t* symbols, escape_cursor& escapes) {
  const uint8x16_t listed = vld1q_u8(list.symbols.data());
  const uint8x16_t largest_nibble = vdupq_n_u8(nibble_list::escape_value);
  const bool escaping = list.has_escape();
  std::size_t at = 0;
  for (; at < count; at += 32) {
    const uint8x16_t both = vld1q_u8(pairs + at / 2);
    const uint8x16_t even = vandq_u8(both, largest_nibble), odd = vshrq_n_u8(both, 4);
    const uint8x16_t nibbles[2] = {vzip1q_u8(even, odd), vzip2q_u8(even, odd)};
    // Four bits per symbol: all set if it is an escape.
    const auto escaped = [&](std::size_t half) {
      const uint16x8_t is_escape = vreinterpretq_u16_u8(vceqq_u8(nibbles[half], largest_nibble));
      return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(is_escape, 4)), 0);
    };
    const std::uint64_t sets[2] = {escaping ? escaped(0) : 0, escaping ? escaped(1) : 0};
    if ((sets[0] | sets[1]) != 0) [[unlikely]] {
      if (!escapes.can_take(static_cast<std::size_t>(std::popcount(sets[0]) + std::popcount(sets[1])) / 4)) break;
    }
    for (std::size_t half = 0; half < 2; ++half) {
      std::uint8_t* const to = symbols + at + 16 * half;
      vst1q_u8(to, vqtbl1q_u8(listed, nibbles[half]));
      for (std::uint64_t left = sets[half] & 0x1111111111111111U; left != 0; left &= left - 1) {
        to[std::countr_zero(left) / 4] = escapes.take();
      }
    }
  }
  return at;
}

}  // namespace ecq::detail

#endif
