#pragma once
/// \file
/// A look-up table of a prefix code that finds several code words at once: from bits (the first in bit 0) to all
/// symbols whose code words end within them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/entropy/huffman/huffman_table.hpp"

namespace ecq {

/// Entries of 64 bits: up to `most` symbols, the first in the lowest byte (bits 0..39), the number of bits that their
/// code words take together (40..45), the number of symbols (46..50), and a mask of the bits at which a code word
/// begins (51..61). `step` returns length and count in one number, so that a sum of a few steps is the sum of both. An
/// entry is 0 if not even the first code word ends within the bits looked up.
struct huffman_multi_entry {
  static constexpr unsigned most = 5;

  static constexpr unsigned step(std::uint64_t entry) noexcept { return static_cast<unsigned>(entry >> 40); }
  static constexpr unsigned length(unsigned steps) noexcept { return steps & 63U; }
  static constexpr unsigned count(unsigned steps) noexcept { return (steps >> 6) & 31U; }
  static constexpr std::uint64_t starts(std::uint64_t entry) noexcept { return entry >> 51; }
};

/// Owns the table. It holds symbols as they are written: shifted left by the raw bits.
class huffman_multi {
 public:
  /// Number of bits looked up at once. The table stays in the first-level cache beside the data that are decoded, and
  /// one load of 64 bits serves five look-ups.
  static constexpr unsigned bits = 11;

  /// Builds the table. Do not look up codes with only one symbol, which takes no bits.
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

  /// Fills in the entries that begin with the `used` bits `prefix`. These bits are the code words of `count` symbols,
  /// which `entry` holds with their starts. `words` are sorted by length.
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
