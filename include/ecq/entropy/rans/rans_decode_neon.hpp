#pragma once
/// \file
/// Decodes rANS with 64-bit Arm's vectors, two chunks side by side.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_neon.hpp"

namespace ecq::detail::neon {

/// A sink of advance_groups() that stores codes.
template <std::size_t Chunks, class Table>
struct code_sink {
  code_sink(const Table& of_symbols, rans_cursor* const* cursors) : table(of_symbols) {
    for (std::size_t c = 0; c < Chunks; ++c) out[c] = cursors[c]->out;
  }

  [[gnu::always_inline]] inline bool take(std::size_t c, const uint8x16_t (&symbols)[2][rounds_per_group]) {
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      uint8x16_t codes[rounds_per_group];
      ECQ_UNROLL
      for (std::size_t round = 0; round < rounds_per_group; ++round) codes[round] = table.code_of(symbols[side][round]);
      // A lane's four codes are neighbours. (ST4 would bring them together, but takes as long as this and more.)
      const auto pairs = [](uint8x16_t earlier, uint8x16_t later) {
        return uint16x8x2_t{
            {vreinterpretq_u16_u8(vzip1q_u8(earlier, later)), vreinterpretq_u16_u8(vzip2q_u8(earlier, later))}};
      };
      const uint16x8x2_t first = pairs(codes[0], codes[1]), second = pairs(codes[2], codes[3]);
      ECQ_UNROLL
      for (std::size_t part = 0; part < 2; ++part) {
        std::uint8_t* const to = out[c] + 64 * side + 32 * part;
        vst1q_u8(to, vreinterpretq_u8_u16(vzip1q_u16(first.val[part], second.val[part])));
        vst1q_u8(to + 16, vreinterpretq_u8_u16(vzip2q_u16(first.val[part], second.val[part])));
      }
    }
    out[c] += group_symbols;
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.out = out[c]; }

  const Table& table;
  std::uint8_t* out[Chunks];
};

template <std::size_t Chunks, class Table>
inline bool advance_together(const Table& table, rans_cursor* const* cursors, std::size_t groups) {
  code_sink<Chunks, Table> sink(table, cursors);
  return advance_groups<Chunks>(table, cursors, groups, sink);
}

/// Decodes `groups` whole groups of `count` chunks, 1 or 2, side by side. If one of them runs out of words, returns
/// false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
template <class Table>
inline bool rans_advance(const Table& table, rans_cursor* const* cursors, std::size_t count, std::size_t groups) {
  return count == 2 ? advance_together<2>(table, cursors, groups) : advance_together<1>(table, cursors, groups);
}

}  // namespace ecq::detail::neon

#endif
