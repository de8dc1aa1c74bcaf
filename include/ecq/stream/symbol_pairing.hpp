#pragma once
/// \file
/// Conversion of symbols to pairs of nibbles by the encoder.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/entropy/nibble_list.hpp"

namespace ecq::detail {

/// Rule by which symbols, or codes of one byte, become pairs.
struct symbol_pairing {
  explicit symbol_pairing(const nibble_list& chosen) : list(chosen), nibbles(chosen.nibbles()) {
    for (std::size_t pair = 0; pair < coded.size(); ++pair) coded[pair] = static_cast<std::uint8_t>(pair);
  }

  /// Returns the coded pair of two symbols or codes.
  std::uint8_t pair_of(std::uint8_t first, std::uint8_t second) const {
    return coded[nibbles[first] + std::size_t{16} * nibbles[second]];
  }
  /// Returns the coded pair of an odd last symbol or code.
  std::uint8_t last_pair_of(std::uint8_t symbol) const { return coded[nibbles[symbol]]; }

  nibble_list list;
  std::array<std::uint8_t, 256> nibbles;  ///< nibble of each symbol or code
  unsigned raw_bits = 0;                  ///< per code
  std::array<std::uint8_t, 256> raw{};    ///< raw bits of each code: its distance from its symbol
  /// Coded form of each pair of nibbles, first + 16 * second: the pair itself, or one with escapes in place of its
  /// nibbles. A second nibble of 0 always stays, because an odd last symbol needs it.
  std::array<std::uint8_t, 256> coded{};
};

/// Writes the pairs of `symbols`, pairs_of(symbols.size()) bytes, to `pairs`. Appends escaped symbols, or escaped codes
/// minus their raw bits, to `escapes`.
inline void pair_symbols(const symbol_pairing& pairing, std::span<const std::uint8_t> symbols, std::uint8_t* pairs,
                         std::vector<std::byte>& escapes) {
  const std::size_t whole = symbols.size() / 2;
  for (std::size_t i = 0; i < whole; ++i) {
    pairs[i] = pairing.pair_of(symbols[2 * i], symbols[2 * i + 1]);
  }
  if (symbols.size() % 2 != 0) pairs[whole] = pairing.last_pair_of(symbols.back());
  if (!pairing.list.has_escape()) return;
  const auto escape = [&](std::uint8_t symbol) {
    escapes.push_back(static_cast<std::byte>(symbol - pairing.raw[symbol]));
  };
  constexpr std::size_t block = 32;  // most blocks have no escapes
  const std::size_t count = (symbols.size() + 1) / 2;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t last = (std::min)(first + block, count);
    if (last == first + block) {
      std::uint8_t any = 0;
      for (std::size_t i = 0; i < block; ++i) {
        const std::uint8_t pair = pairs[first + i];
        any |= static_cast<std::uint8_t>(pair % 16 == nibble_list::escape_value) |
               static_cast<std::uint8_t>(pair / 16 == nibble_list::escape_value);
      }
      if (any == 0) continue;
    }
    for (std::size_t i = first; i < last; ++i) {
      if (pairs[i] % 16 == nibble_list::escape_value) escape(symbols[2 * i]);
      if (pairs[i] / 16 == nibble_list::escape_value) escape(symbols[2 * i + 1]);
    }
  }
}

}  // namespace ecq::detail
