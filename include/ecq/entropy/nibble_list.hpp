#pragma once
/// \file
/// Symbols as nibbles, two of which a coder takes as one byte (docs/format.md, symbol map pairs). Pairs halve the
/// steps, and they halve what whole bits a symbol cost Huffman codes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

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

  /// The list for symbols that occur as often as `counts` says. It has no escape if at most 16 different symbols occur;
  /// otherwise it holds the 15 most frequent, the smaller ones among equals. Symbols have `symbol_bits` (4..8) bits.
  static nibble_list of(const histogram& counts, unsigned symbol_bits) {
    std::array<std::uint8_t, 256> order{};
    std::iota(order.begin(), order.end(), std::uint8_t{0});
    std::stable_sort(order.begin(), order.begin() + (std::ptrdiff_t{1} << symbol_bits),
                     [&](std::uint8_t a, std::uint8_t b) { return counts.counts[a] > counts.counts[b]; });
    const std::size_t listed = counts.distinct() <= bytes ? bytes : bytes - 1;
    std::array<bool, 256> chosen{};
    for (std::size_t i = 0; i < listed; ++i) chosen[order[i]] = true;
    nibble_list list;
    list.symbols = {};
    std::size_t next = 0;
    for (unsigned symbol = 0; next < listed; ++symbol) {
      if (chosen[symbol]) list.symbols[next++] = static_cast<std::uint8_t>(symbol);
    }
    return list;
  }

  /// Reads a list from `bytes` bytes. Errors: errc::corrupt unless they ascend as they must and are symbols of
  /// `symbol_bits` bits.
  static result<nibble_list> read(std::span<const std::byte, bytes> from, unsigned symbol_bits) {
    nibble_list list;
    std::transform(from.begin(), from.end(), list.symbols.begin(),
                   [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
    const std::size_t listed = list.has_escape() ? bytes - 1 : bytes;
    for (std::size_t i = 0; i < listed; ++i) {
      const unsigned symbol = list.symbols[i];
      if (symbol >> symbol_bits == 0 && (i == 0 || symbol > list.symbols[i - 1])) continue;
      return error(errc::corrupt, "symbol ", symbol, " as nibble ", i, " of symbols that ascend and have ", symbol_bits,
                   " bits");
    }
    return list;
  }

  /// The nibble of every symbol; the escape for symbols that are not listed.
  std::array<std::uint8_t, 256> nibbles() const noexcept {
    std::array<std::uint8_t, 256> found{};
    found.fill(escape_value);
    const std::size_t listed = has_escape() ? bytes - 1 : bytes;
    for (std::size_t i = 0; i < listed; ++i) found[symbols[i]] = static_cast<std::uint8_t>(i);
    return found;
  }

  bool operator==(const nibble_list&) const = default;
};

}  // namespace ecq
