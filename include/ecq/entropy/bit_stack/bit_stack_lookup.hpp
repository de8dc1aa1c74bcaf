#pragma once
/// \file
/// Tables of tANS and Huffman in the layout that vector kernels use.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"

namespace ecq::detail {

/// Decode table of tANS: the entry of each state.
struct tans_lookup {
  static constexpr bool by_state = true;

  const stack_entry* entries;
};

/// Decode table of Huffman codes, indexed by the next bits of a stack. Entries hold the number of bits to take (bits
/// 0..7) and the decoded byte (8..15). If a code word is longer than the table's index, its entry takes 0 bits, and
/// find_longer() finds it.
struct huffman_lookup {
  static constexpr bool by_state = false;
  static constexpr unsigned max_bits = 14;  ///< few code words are longer; leaves room in the first-level cache

  huffman_lookup(const huffman_wide_view& from, unsigned longest, unsigned raw_bits_of_map)
      : raw_bits(raw_bits_of_map), index_mask((1U << (std::min)(longest, max_bits)) - 1U), cascade(from.cascade) {
    const std::size_t part = std::size_t{1} << from.bits;
    for (std::size_t at = 0; at < part; ++at) entries[at] = entry_of(from.entries[at]);
    for (std::size_t at = part; at <= index_mask; at += part) std::copy_n(entries, part, entries + at);
    if (longest == from.bits) return;
    for (std::size_t prefix = 0; prefix < part; ++prefix) {
      if (entries[prefix] != 0) continue;
      for (std::size_t at = prefix; at <= index_mask; at += part) {
        const unsigned found = cascade.look_up(static_cast<std::uint32_t>(at));
        if (huffman_entry::length(found) <= max_bits) entries[at] = entry_of(found);
      }
    }
  }

  /// Returns the entry of a code word of any length, from the cascade.
  std::uint16_t find_longer(std::uint32_t stack) const { return entry_of(cascade.look_up(stack)); }

  std::uint16_t entry_of(unsigned entry) const {
    return static_cast<std::uint16_t>(huffman_entry::length(entry) | huffman_entry::value(entry) << (8 + raw_bits));
  }

  unsigned raw_bits;
  std::uint32_t index_mask;
  huffman_cascade_view cascade;
  std::uint16_t entries[(1U << max_bits) + 1];  ///< each is read together with the next one, hence one more
};

/// Entries that an encoder looks up by code: 32 bits each, 0 for codes that never occur. Runs of equal entries are also
/// numbered, so that registers can hold the table if there are at most 64 runs.
struct code_entries {
  /// Numbers the entries. Precondition: all of them are set.
  void number() {
    std::uint32_t last = 0;
    for (std::size_t code = 0; code < 256; ++code) {
      number_of_code[code] = 0;
      if (entries[code] == 0) continue;
      if (entries[code] != last) {
        if (count < 64) {
          low[count] = static_cast<std::uint16_t>(entries[code]);
          high[count] = static_cast<std::uint16_t>(entries[code] >> 16);
        }
        ++count;
        last = entries[code];
      }
      number_of_code[code] = static_cast<std::uint8_t>(count - 1);
    }
  }

  std::uint32_t entries[256];
  unsigned count = 0;
  std::uint8_t number_of_code[256];  ///< number of the code's entry
  std::uint16_t low[64] = {};        ///< halves of entries, by number
  std::uint16_t high[64] = {};
};

/// Encode table of tANS, by code: start modulo 2^16 (bits 0..15), most (16..19) and limit / 2 (20..31) of its symbol,
/// as in tans::encoder. Each state in `states` is read together with the next one.
struct tans_encoding : code_entries {
  static constexpr bool by_state = true;

  const std::uint16_t* states;
};

/// Encode table of Huffman codes, by code: its code word at the top of bits 0..15, and its length (16..20).
struct huffman_encoding : code_entries {
  static constexpr bool by_state = false;
};

}  // namespace ecq::detail
