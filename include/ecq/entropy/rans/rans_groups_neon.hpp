#pragma once
/// \file
/// Decodes whole groups of chunks of rANS side by side with 64-bit Arm's vectors. States are kept in 16-bit halves, and
/// a table of permutations expands words. A sink takes the symbols while they are in registers.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/word_permutations.hpp"

namespace ecq::detail::neon {

/// Number of registers for the 16-bit halves of a chunk's states, eight lanes each in ascending order.
inline constexpr std::size_t half_registers = lane_count / 8;

/// The fields that decoding needs of the slots of all states of a chunk.
struct slot_fields {
  uint16x8_t frequency[half_registers];  ///< state = high half * frequency + rank
  uint16x8_t rank[half_registers];
  uint8x16_t symbol[2];
};

/// The states of a chunk.
struct split_states {
  uint16x8_t low[half_registers];
  uint16x8_t high[half_registers];

  void read(const std::uint32_t* state) {
    ECQ_UNROLL
    for (std::size_t i = 0; i < half_registers; ++i) {
      put(i, vld1q_u32(state + 8 * i), vld1q_u32(state + 8 * i + 4));
    }
  }

  /// Moves all states on; those that are due take the next words. Reads at most 64 bytes from `word` on.
  [[gnu::always_inline]] inline void step(const slot_fields& slot, const std::byte*& word) {
    uint16x8_t due[half_registers];
    ECQ_UNROLL
    for (std::size_t i = 0; i < half_registers; ++i) {
      const uint32x4_t first = vmull_u16(vget_low_u16(slot.frequency[i]), vget_low_u16(high[i]));
      const uint32x4_t second = vmull_high_u16(slot.frequency[i], high[i]);
      put(i, vaddw_u16(first, vget_low_u16(slot.rank[i])), vaddw_high_u16(second, slot.rank[i]));
      due[i] = vceqzq_u16(high[i]);
    }
    const uint8x8_t sets = sets_of(due);
    const std::uint32_t set = vget_lane_u32(vreinterpret_u32_u8(sets), 0);
    // Byte i is the size of the words of the first i + 1 sets.
    const std::uint32_t taken = vget_lane_u32(vreinterpret_u32_u8(vcnt_u8(sets)), 0) * 0x02020202U;
    ECQ_UNROLL
    for (std::size_t i = 0; i < half_registers; ++i) {
      const std::size_t before = i == 0 ? 0 : taken >> (8 * (i - 1)) & 0xFFU;
      const uint8x16_t some = vld1q_u8(reinterpret_cast<const std::uint8_t*>(word + before));
      const uint8x16_t permutation = vld1q_u8(word_permutations[set >> (8 * i) & 0xFFU].data());
      const uint16x8_t words = vreinterpretq_u16_u8(vqtbl1q_u8(some, permutation));
      high[i] = vbslq_u16(due[i], low[i], high[i]);
      low[i] = vbslq_u16(due[i], words, low[i]);
    }
    word += taken >> 24;
  }

  void write(std::uint32_t* state) const {
    ECQ_UNROLL
    for (std::size_t i = 0; i < half_registers; ++i) {
      vst1q_u32(state + 8 * i, vreinterpretq_u32_u16(vzip1q_u16(low[i], high[i])));
      vst1q_u32(state + 8 * i + 4, vreinterpretq_u32_u16(vzip2q_u16(low[i], high[i])));
    }
  }

 private:
  [[gnu::always_inline]] inline void put(std::size_t i, uint32x4_t first, uint32x4_t second) {
    low[i] = vuzp1q_u16(vreinterpretq_u16_u32(first), vreinterpretq_u16_u32(second));
    high[i] = vuzp2q_u16(vreinterpretq_u16_u32(first), vreinterpretq_u16_u32(second));
  }

  /// Returns the lanes that are due, a bit each, in the first four bytes.
  [[gnu::always_inline]] static inline uint8x8_t sets_of(const uint16x8_t (&due)[half_registers]) {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201U));
    const uint8x16_t first = vandq_u8(bits, bytes_of(due[0], due[1])),
                     second = vandq_u8(bits, bytes_of(due[2], due[3]));
    const uint8x16_t pairs = vpaddq_u8(first, second);
    const uint8x16_t fours = vpaddq_u8(pairs, pairs);
    return vget_low_u8(vpaddq_u8(fours, fours));
  }

  static uint8x16_t bytes_of(uint16x8_t first, uint16x8_t second) {
    return vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
  }
};

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, or the sink gives
/// up, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
///
/// `table.look_up(low)` returns the fields of slots, given the lower halves of states.
///
/// `sink.take(c, symbols)` takes the symbols of a group of chunk number c, as `table` returns them, and returns false
/// to give up. symbols[side] holds those of lanes 16 side, 16 side + 1, ..., one register for each round. Once all
/// groups are decoded, `sink.leave(c, cursor)` moves the remaining members of a cursor.
template <std::size_t Chunks, class Table, class Sink>
[[gnu::always_inline]] inline bool advance_groups(const Table& table, rans_cursor* const* cursors, std::size_t groups,
                                                  Sink& sink) {
  split_states states[Chunks];
  const std::byte* word[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    states[c].read(cursors[c]->state);
    word[c] = cursors[c]->word;
  }
  for (std::size_t group = 0; group < groups; ++group) {
    uint8x16_t symbols[Chunks][2][rounds_per_group];
    ECQ_UNROLL
    for (std::size_t first = 0; first < rounds_per_group; first += 2) {
      ECQ_UNROLL
      for (std::size_t round = first; round < first + 2; ++round) {
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          const slot_fields slot = table.look_up(states[c].low);
          symbols[c][0][round] = slot.symbol[0];
          symbols[c][1][round] = slot.symbol[1];
          states[c].step(slot, word[c]);
        }
      }
      // Two rounds take 64 words, 128 bytes, at most.
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > cursors[c]->end;
      if (overrun) return false;
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      prefetch<2>(word[c], prefetch_distance);
      if (!sink.take(c, symbols[c])) return false;
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    states[c].write(cursors[c]->state);
    cursors[c]->word = word[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    sink.leave(c, *cursors[c]);
  }
  return true;
}

}  // namespace ecq::detail::neon

#endif
