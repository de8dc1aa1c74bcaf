#pragma once
/// \file
/// Bit stack of one lane, last in, first out, in a 32-bit register: the lane side of Huffman and tANS.
///
/// A stack y holds the bits below its highest 1, between 16 and 31 of them: 2^16 <= y < 2^32. Popping n bits takes the
/// low n. When fewer than 16 are left, the lane takes a word, whose bits are popped next. So words are due exactly
/// where rANS takes them, and a stack needs no count of its bits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/entropy_coder.hpp"

namespace ecq::detail {

inline constexpr std::uint32_t bit_stack_bottom = 1U << 16;  ///< value with which encoders start and decoders must end

/// Size of the stacks of `lane_count` lanes: 4 bytes each.
inline constexpr std::size_t bit_stack_bytes = lane_count * 4;

/// Entry of a decode table: the number of bits that a symbol takes from a stack, the decoded byte and, for tANS, the
/// base of the lane's next state, which is base + those bits.
struct stack_entry {
  std::uint16_t base;
  std::uint8_t bits;  ///< 0 .. 16
  std::uint8_t code;
};

/// A chunk that is being decoded, like rans_cursor. Kernels advance it by some groups; finish() decodes the rest and
/// returns the verdict.
struct bit_stack_cursor {
  const std::byte* word;  ///< the next word; if it is beyond `end`, the verdict is errc::corrupt
  const std::byte* end;
  std::uint8_t* out;
  std::uint32_t left;  ///< codes not decoded yet; until the last group, a multiple of group_symbols are decoded
  std::uint32_t stack[lane_count];
  std::uint32_t state[lane_count];  ///< states of tANS, which must end at 0; other coders leave them at 0

  /// Starts at the beginning of `chunk` with states 0, and writes codes to `to`. Returns false if the chunk's stacks
  /// are invalid.
  bool begin(const chunk_bytes& chunk, std::uint8_t* to) {
    word = chunk.words;
    end = chunk.words + std::size_t{2} * chunk.word_count;
    out = to;
    left = chunk.symbols;
    bool valid = true;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      stack[lane] = load_le<std::uint32_t>(chunk.states + 4 * lane);
      state[lane] = 0;
      valid = valid && stack[lane] >= bit_stack_bottom;
    }
    return valid;
  }

  /// Decodes the rest of the chunk and returns the verdict. `pop(state, stack)` returns the stack_entry of a lane's
  /// next symbol and advances the lane's state.
  template <class Pop>
  errc finish(const Pop& pop) const {
    bit_stack_cursor at = *this;  // local copies: the compiler knows that codes written do not change them
    const Pop pop_of_lane = pop;
    const auto step = [&](std::uint32_t lane) {
      const stack_entry found = pop_of_lane(at.state[lane], at.stack[lane]);
      const std::uint32_t rest = at.stack[lane] >> found.bits;
      // Words are loaded whether they are due or not: arithmetic replaces a branch that no predictor learns. The check
      // before each step of 32 lanes keeps the loads within 64 bytes of `end`, which chunk_bytes allows.
      const auto due = (std::int64_t{rest} - bit_stack_bottom) >> 63;  // -1 or 0
      const std::uint32_t refilled = (rest << 16) | load_le<std::uint16_t>(at.word);
      at.stack[lane] = rest ^ ((rest ^ refilled) & static_cast<std::uint32_t>(due));
      at.word -= 2 * due;
      return found.code;
    };
    for (; at.left >= group_symbols; at.left -= group_symbols, at.out += group_symbols) {
      for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
        if (at.word > at.end) return errc::corrupt;
        ECQ_UNROLL
        for (std::uint32_t lane = 0; lane < lane_count; ++lane) at.out[lane * rounds_per_group + round] = step(lane);
      }
    }
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      if (at.word > at.end) return errc::corrupt;
      const std::uint32_t lanes = lanes_in_step(at.left, round);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) at.out[lane * rounds_per_group + round] = step(lane);
    }
    bool ended = at.word == at.end;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      ended = ended && at.stack[lane] == bit_stack_bottom && at.state[lane] == 0;
    }
    return ended ? errc::ok : errc::corrupt;
  }
};

/// Decodes a chunk whose table has only one symbol. Returns errc::corrupt unless the chunk has no words and stacks that
/// never moved.
inline errc decode_unmoved_stacks(const chunk_bytes& chunk, std::uint8_t code, std::uint8_t* out) {
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    if (load_le<std::uint32_t>(chunk.states + 4 * lane) != bit_stack_bottom) return errc::corrupt;
  }
  std::memset(out, code, chunk.symbols);
  return chunk.word_count == 0 ? errc::ok : errc::corrupt;
}

/// Bits that a symbol pushes onto a stack: the low `bits` (0..16) of `value`, whose other bits are 0.
struct pushed {
  std::uint32_t value;
  std::uint32_t bits;
};

/// A chunk that is being encoded, from its end to its beginning.
struct bit_stack_encode_cursor {
  std::span<const std::uint8_t> codes;  ///< codes not encoded yet
  std::uint16_t* word;  ///< first word written so far; before it there is room for one word per code left
  std::uint32_t stack[lane_count];
  std::uint32_t state[lane_count];  ///< states of tANS

  void begin(std::span<const std::uint8_t> chunk, std::span<std::uint16_t> room, std::uint32_t first_state) {
    codes = chunk;
    word = room.data() + room.size();
    std::fill_n(stack, lane_count, bit_stack_bottom);
    std::fill_n(state, lane_count, first_state);
  }

  /// Encodes all groups except the first `down_to`. `push(state, code)` returns the bits that a lane pushes for a code
  /// and advances the lane's state.
  template <class Push>
  void encode(std::size_t down_to, const Push& push) {
    bit_stack_encode_cursor at = *this;  // a local copy: the compiler knows that words written do not change it
    for (std::size_t group = (codes.size() + group_symbols - 1) / group_symbols; group-- > down_to;) {
      const std::uint8_t* in = codes.data() + group * group_symbols;
      const auto left = static_cast<std::uint32_t>(
          (std::min)(codes.size() - group * group_symbols, static_cast<std::size_t>(group_symbols)));
      for (std::uint32_t round = rounds_per_group; round-- > 0;) {
        for (std::uint32_t lane = lanes_in_step(left, round); lane-- > 0;) {
          const pushed next = push(at.state[lane], in[lane * rounds_per_group + round]);
          // No branch predictor learns whether a word is due, so this is arithmetic.
          std::uint32_t y = at.stack[lane];
          const std::uint32_t full = std::uint64_t{y} << next.bits >> 32 != 0 ? 1 : 0;
          at.word[-1] = static_cast<std::uint16_t>(y);
          at.word -= full;
          y >>= 16 * full;
          at.stack[lane] = (y << next.bits) | next.value;
        }
      }
    }
    at.codes = codes.first((std::min)(codes.size(), down_to * group_symbols));
    *this = at;
  }
};

}  // namespace ecq::detail
