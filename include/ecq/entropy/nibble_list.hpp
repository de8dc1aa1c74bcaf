#pragma once
/// \file
/// Symbols as nibbles, two of which a coder takes as one byte (docs/format.md, symbol map pairs). Pairs halve the
/// number of steps, and they halve the cost of whole bits per symbol in Huffman codes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// The symbol that each value of a nibble stands for: 16 symbols, or 15 symbols and, as nibble 15, the escape, which
/// stands for any symbol. The default list is for symbols of 4 bits, which are their own nibbles.
struct nibble_list {
  static constexpr std::size_t bytes = 16;          ///< size of the list in a stream: `symbols`
  static constexpr std::uint8_t escape_value = 15;  ///< the nibble of the escape, if there is one

  /// The symbols, strictly ascending; the last one is 0 if there is an escape.
  std::array<std::uint8_t, bytes> symbols{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  constexpr bool has_escape() const noexcept { return symbols.back() == 0; }

  /// Returns the list for symbols that occur as often as `counts` says. It has no escape if at most 16 different
  /// symbols occur. Otherwise it holds the 15 most frequent ones, the smaller ones among equals. Symbols have
  /// `symbol_bits` (4..8) bits.
  static nibble_list of(const histogram& counts, unsigned symbol_bits);

  /// Reads a list from `bytes` bytes. Errors: errc::corrupt unless the symbols are strictly ascending and have
  /// `symbol_bits` bits.
  static result<nibble_list> read(std::span<const std::byte, bytes> from, unsigned symbol_bits);

  /// Returns the nibble of every symbol: the escape for symbols that are not listed.
  std::array<std::uint8_t, 256> nibbles() const noexcept;

  bool operator==(const nibble_list&) const = default;
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/nibble_list-inl.hpp"
#endif
