#pragma once
/// \file
/// A look-up table of a prefix code that finds several code words at once: bits, the first in bit 0 -> all symbols
/// whose words end within them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/entropy/huffman/huffman_table.hpp"

namespace ecq {

/// Entries of 64 bits: up to `most` symbols, the first in the lowest byte (bits 0..39), the bits that their words take
/// together (40..45), how many symbols (46..50), and at which of the bits a code word begins (51..61). `step` is length
/// and count in one: sums of a few steps are sums of both. 0 where not even the first word ends within the bits looked
/// up.
struct huffman_multi_entry {
  static constexpr unsigned most = 5;

  static constexpr unsigned step(std::uint64_t entry) noexcept { return static_cast<unsigned>(entry >> 40); }
  static constexpr unsigned length(unsigned steps) noexcept { return steps & 63U; }
  static constexpr unsigned count(unsigned steps) noexcept { return (steps >> 6) & 31U; }
  static constexpr std::uint64_t starts(std::uint64_t entry) noexcept { return entry >> 51; }
};

/// Owns the table; symbols are in it as they are to be written, shifted by the raw bits.
class huffman_multi {
 public:
  /// The table stays in the first-level cache beside what is decoded, and five look-ups need one load of 64 bits.
  static constexpr unsigned bits = 11;

  /// That of one symbol alone, which takes no bits, is not to be looked up.
  template <unsigned Limit>
  huffman_multi(const huffman_table<Limit>& table, unsigned raw_bits) : entries_(std::size_t{1} << bits) {
    std::vector<code_word> words;
    for (unsigned length = 1; length <= (std::min)(table.longest, bits); ++length) {
      for (unsigned i = 0; i < table.count; ++i) {
        if (table.lengths[i] != length) continue;
        words.push_back({table.words[i], length, static_cast<std::uint8_t>(table.symbols[i] << raw_bits)});
      }
    }
    if (table.count > 1) fill(words, table.longest, 0, 0, 0, 0);
  }

  const std::uint64_t* entries() const noexcept { return entries_.data(); }  ///< valid as long as this object

 private:
  struct code_word {
    std::uint32_t bits;
    unsigned length;
    std::uint8_t symbol;
  };

  /// Enters what begins with the `used` bits `prefix`: words of `count` symbols, which are in `entry` with their
  /// starts. `words` are sorted by length.
  void fill(std::span<const code_word> words, unsigned longest, std::size_t prefix, unsigned used, unsigned count,
            std::uint64_t entry) {
    const unsigned left = bits - used;
    if (count == huffman_multi_entry::most || longest > left) {
      const std::uint64_t whole = entry | (std::uint64_t{used} << 40) | (std::uint64_t{count} << 46);
      for (std::size_t at = prefix; at < entries_.size(); at += std::size_t{1} << used) entries_[at] = whole;
    }
    if (count == huffman_multi_entry::most) return;
    for (const code_word& word : words) {
      if (word.length > left) break;
      fill(words, longest, prefix | (std::size_t{word.bits} << used), used + word.length, count + 1,
           entry | (std::uint64_t{word.symbol} << (8 * count)) | (std::uint64_t{1} << (51 + used)));
    }
  }

  std::vector<std::uint64_t> entries_;
};

}  // namespace ecq
