#pragma once
/// \file
/// Tables of tANS and Huffman as vector kernels use them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/bit_stack.hpp"
#include "ecq/entropy/huffman_lut.hpp"

namespace ecq::detail {

/// tANS: the entry of each state.
struct tans_lookup {
  static constexpr bool by_state = true;

  const stack_entry* entries;
};

/// Entry of a look-up table as an entry of a stack; the decoded byte is the symbol shifted left by the map's raw bits.
inline stack_entry stack_entry_of(unsigned entry, unsigned raw_bits) {
  return {0, static_cast<std::uint8_t>(huffman_entry::length(entry)),
          static_cast<std::uint8_t>(huffman_entry::value(entry) << raw_bits)};
}

/// Huffman: the entry of the next bits of a stack; bits is 0 where the code word is longer than the table's index.
struct huffman_lookup {
  static constexpr bool by_state = false;
  static constexpr unsigned max_bits = huffman_wide::max_bits;

  huffman_lookup(const huffman_wide_view& from, unsigned raw_bits_of_map)
      : raw_bits(raw_bits_of_map), index_mask((1U << from.bits) - 1U), cascade(from.cascade) {
    for (std::uint32_t at = 0; at <= index_mask; ++at) entries[at] = stack_entry_of(from.entries[at], raw_bits);
  }

  /// By the cascade: a code word of any length.
  stack_entry find_longer(std::uint32_t stack) const { return stack_entry_of(cascade.look_up(stack), raw_bits); }

  unsigned raw_bits;
  std::uint32_t index_mask;
  huffman_cascade_view cascade;
  stack_entry entries[1U << max_bits];
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
