#pragma once
/// \file
/// Cursors in a chunk of rANS. Decoders of any instruction set advance a cursor by some groups. The scalar definition
/// decodes from there to the end of the chunk and returns the verdict.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"

namespace ecq::detail {

/// The state in which encoders of rANS start and decoders must end; states are never below it.
inline constexpr std::uint32_t rans_lower_bound = 1U << 16;

/// The entry of the slot in the low bits of a state, and the offset to which the entry's adjust is added.
struct slot_lookup {
  std::uint64_t entry;
  std::uint32_t offset;
};

template <unsigned BucketBits>
inline slot_lookup look_up(const alias_slots<BucketBits>& slots, std::uint32_t state) {
  const std::uint32_t bucket = state & ((1U << BucketBits) - 1U);
  const std::uint32_t offset = (state & 0xFFFFU) >> BucketBits;
  return {slots.entries[2 * bucket + (offset >= slots.dividers[bucket] ? 1U : 0U)], offset};
}

inline slot_lookup look_up(const direct_slots& slots, std::uint32_t state) {
  const std::uint32_t slot = state & ((1U << slots.bits) - 1U);
  return {slots.entries[slots.entry_of_slot[slot]], slot};
}

struct rans_cursor {
  const std::byte* word;  ///< the next word; if it is beyond `end`, the verdict is errc::corrupt
  const std::byte* end;
  std::uint8_t* out;
  std::uint32_t left;  ///< codes not decoded yet; until the last group, a multiple of group_symbols are decoded
  const std::byte* raw = nullptr;  ///< for kernels that join: raw bits of the next code; its element goes to `element`
  std::byte* element = nullptr;
  const std::byte* escape = nullptr;  ///< for kernels that join pairs: the next escape
  const std::byte* escape_end = nullptr;
  std::uint32_t state[lane_count];

  /// Starts at the beginning of `chunk` and writes codes to `to`. Returns false if the chunk's states are invalid.
  bool begin(const chunk_bytes& chunk, std::uint8_t* to) {
    word = chunk.words;
    end = chunk.words + std::size_t{2} * chunk.word_count;
    out = to;
    left = chunk.symbols;
    bool valid = true;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      state[lane] = load_le<std::uint32_t>(chunk.states + 4 * lane);
      valid = valid && state[lane] >= rans_lower_bound;
    }
    return valid;
  }

  /// Decodes the rest of the chunk and returns the verdict.
  template <class Slots>
  errc finish(Slots slots) const {
    rans_cursor at = *this;  // a local copy: the compiler knows that codes written do not change it
    const auto step = [&](std::uint32_t lane) {
      const std::uint32_t x = at.state[lane];
      const slot_lookup hit = look_up(slots, x);
      const std::uint32_t frequency = static_cast<std::uint32_t>(hit.entry) & 0xFFFFU;
      const std::uint32_t rank = (hit.offset + static_cast<std::uint32_t>(hit.entry >> 16)) & 0xFFFFU;
      const std::uint32_t next = frequency * (x >> slots.scale_bits()) + rank;
      // As in the encoder, the word is loaded whether it is due or not. The check before each step of 32 lanes keeps
      // these loads within 64 bytes of `end`, which chunk_bytes allows.
      const std::uint32_t refilled = (next << 16) | load_le<std::uint16_t>(at.word);
      const std::uint32_t due = next < rans_lower_bound ? 1 : 0;
      at.state[lane] = next ^ ((next ^ refilled) & (0U - due));
      at.word += std::size_t{2} * due;
      return static_cast<std::uint8_t>(hit.entry >> 32);
    };
    for (; at.left >= group_symbols; at.left -= group_symbols, at.out += group_symbols) {
      for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
        if (at.word > at.end) return errc::corrupt;
        for (std::uint32_t lane = 0; lane < lane_count; ++lane) at.out[lane * rounds_per_group + round] = step(lane);
      }
    }
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      if (at.word > at.end) return errc::corrupt;
      const std::uint32_t lanes = lanes_in_step(at.left, round);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) at.out[lane * rounds_per_group + round] = step(lane);
    }
    std::uint32_t differences = 0;  // without branches, so compilers take several lanes at a time
    for (const std::uint32_t x : at.state) differences |= x ^ rans_lower_bound;
    return differences == 0 && at.word == at.end ? errc::ok : errc::corrupt;
  }
};

/// A chunk that is being encoded, from its end to its beginning.
struct rans_encode_cursor {
  std::span<const std::uint8_t> codes;  ///< codes not encoded yet
  std::uint16_t* word;                  ///< first word written so far
  std::uint32_t state[lane_count];

  void begin(std::span<const std::uint8_t> chunk, std::span<std::uint16_t> room) {
    codes = chunk;
    word = room.data() + room.size();
    std::fill_n(state, lane_count, rans_lower_bound);
  }
};

}  // namespace ecq::detail
