#pragma once
/// \file
/// Tables of tANS and Huffman as vector kernels use them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"

namespace ecq::detail {

/// tANS: the entry of each state.
struct tans_lookup {
  static constexpr bool by_state = true;

  const stack_entry* entries;
};

/// Huffman: what the next bits of a stack decode to. Entries hold the bits to take (bits 0..7) and the byte that is
/// decoded (8..15); a code word longer than the table's index takes 0 bits, and is found by find_longer().
struct huffman_lookup {
  static constexpr bool by_state = false;
  static constexpr unsigned max_bits = 14;  ///< few words are longer, and the table leaves room in the first cache

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

  /// By the cascade: a code word of any length.
  std::uint16_t find_longer(std::uint32_t stack) const { return entry_of(cascade.look_up(stack)); }

  std::uint16_t entry_of(unsigned entry) const {
    return static_cast<std::uint16_t>(huffman_entry::length(entry) | huffman_entry::value(entry) << (8 + raw_bits));
  }

  unsigned raw_bits;
  std::uint32_t index_mask;
  huffman_cascade_view cascade;
  std::uint16_t entries[(1U << max_bits) + 1];  ///< read with the one behind
};

/// tANS, by code: start modulo 2^16 (bits 0..15), most (16..19) and limit / 2 (20..31) of its symbol, as tans::encoder
/// has them. The next x of `states` is read with the one behind it.
struct tans_encoding {
  static constexpr bool by_state = true;

  std::uint32_t entries[256];
  const std::uint16_t* states;
};

/// Huffman, by code: its code word in the highest of bits 0..15, and its length (16..20).
struct huffman_encoding {
  static constexpr bool by_state = false;

  std::uint32_t entries[256];
};

}  // namespace ecq::detail
