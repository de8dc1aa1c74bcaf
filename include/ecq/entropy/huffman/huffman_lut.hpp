#pragma once
/// \file
/// Look-up tables of a prefix code, from bits (the first in bit 0) to a symbol and the length of its code word.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/huffman/huffman_table.hpp"

namespace ecq {

/// Entries of look-up tables: value (bits 0..9) and length (bits 10..15). Length 0 marks a pointer, whose value is a
/// table's number. Only the length distinguishes pointers from symbols, so every symbol 0..255 can be coded.
struct huffman_entry {
  ECQ_HOST_DEVICE static constexpr std::uint16_t make(unsigned value, unsigned length) {
    return static_cast<std::uint16_t>(value | (length << 10));
  }
  ECQ_HOST_DEVICE static constexpr unsigned value(unsigned entry) { return entry & 0x3FFU; }
  ECQ_HOST_DEVICE static constexpr unsigned length(unsigned entry) { return entry >> 10; }
};

/// View of cascaded tables of 256 entries, as in DFloat11 and ECF8. Each byte of the code word is looked up in the
/// table to which the bytes before it lead. Table t has entries 256 t .. 256 t + 255.
struct huffman_cascade_view {
  const std::uint16_t* entries;

  /// Returns the entry of the code word with which `bits` begin. A chain of pointers takes at most four look-ups,
  /// because no code word has more than four bytes.
  ECQ_HOST_DEVICE std::uint16_t look_up(std::uint32_t bits) const {
    std::uint16_t entry = entries[bits & 0xFFU];
    while (huffman_entry::length(entry) == 0) {
      bits >>= 8;
      entry = entries[256U * huffman_entry::value(entry) + (bits & 0xFFU)];
    }
    return entry;
  }
};

/// Owns the cascaded tables of a code. Do not look up codes with only one symbol, which takes no bits.
class huffman_cascade {
 public:
  template <unsigned Limit>
  explicit huffman_cascade(const huffman_table<Limit>& table) : entries_(256) {
    // Each prefix of whole bytes in which no code word ends is shared by at least two code words, and prefixes of the
    // same length have different words. So there are at most 128 tables for each of 3 lengths, and the first. 10 bits
    // can number them.
    for (unsigned i = 0; i < table.count; ++i) {
      std::uint32_t word = table.words[i];
      unsigned left = table.lengths[i];
      std::size_t base = 0;
      for (; left > 8; left -= 8, word >>= 8) {
        std::uint16_t& pointer = entries_[base + (word & 0xFFU)];
        std::size_t next = huffman_entry::value(pointer);
        if (next == 0) {
          next = entries_.size() / 256;
          pointer = huffman_entry::make(static_cast<unsigned>(next), 0);
          entries_.resize(entries_.size() + 256);
        }
        base = 256 * next;
      }
      for (std::size_t rest = 0; rest < std::size_t{1} << (8 - left); ++rest) {
        entries_[base + word + (rest << left)] = huffman_entry::make(table.symbols[i], table.lengths[i]);
      }
    }
  }

  /// Returns a view that is valid as long as this object.
  huffman_cascade_view view() const noexcept { return {entries_.data()}; }
  std::size_t tables() const noexcept { return entries_.size() / 256; }

 private:
  std::vector<std::uint16_t> entries_;
};

/// View of one table for code words of up to `bits` bits. Longer ones have entry 0 there, and the cascade finds them.
struct huffman_wide_view {
  const std::uint16_t* entries;
  huffman_cascade_view cascade;
  unsigned bits;

  ECQ_HOST_DEVICE std::uint16_t look_up(std::uint32_t window) const {
    const std::uint16_t entry = entries[window & ((1U << bits) - 1U)];
    return entry != 0 ? entry : cascade.look_up(window);
  }
};

/// Owns a wide table and the cascade behind it. Do not look up codes with only one symbol, which takes no bits.
class huffman_wide {
 public:
  static constexpr unsigned max_bits = 12;

  template <unsigned Limit>
  explicit huffman_wide(const huffman_table<Limit>& table)
      : bits_((std::min)(table.longest, max_bits)), entries_(std::size_t{1} << bits_), cascade_(table) {
    for (unsigned i = 0; i < table.count; ++i) {
      for (std::size_t at = table.words[i]; table.lengths[i] <= bits_ && at < entries_.size();
           at += std::size_t{1} << table.lengths[i]) {
        entries_[at] = huffman_entry::make(table.symbols[i], table.lengths[i]);
      }
    }
  }

  /// Returns a view that is valid as long as this object.
  huffman_wide_view view() const noexcept { return {entries_.data(), cascade_.view(), bits_}; }

 private:
  unsigned bits_;
  std::vector<std::uint16_t> entries_;
  huffman_cascade cascade_;
};

}  // namespace ecq
