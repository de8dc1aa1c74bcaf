#pragma once
/// \file
/// A canonical prefix code and its record in a stream's tables section: symbols and the lengths of their code words.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/huffman/code_lengths.hpp"
#include "ecq/entropy/rans/rans_table.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// The code of one class of chunks. With a single symbol, nothing is coded and its length is 0. Otherwise the lengths
/// are 1 .. Limit and use up the code space: the sum of 2^-length is 1. So every sequence of bits is a sequence of
/// symbols.
template <unsigned Limit>
struct huffman_table {
  static_assert(Limit >= 8 && Limit <= 32);
  static constexpr unsigned limit = Limit;

  unsigned count = 0;    ///< number of symbols, 1 .. 256
  unsigned longest = 0;  ///< length of the longest code word
  std::array<std::uint8_t, 256> symbols{};
  std::array<std::uint8_t, 256> lengths{};  ///< lengths[i] is the code length of symbols[i]
  /// words[i] is the code word of symbols[i], its first bit in bit 0. Shorter code words come before longer ones, code
  /// words of equal length are in the order of their symbols, and each is the successor of the one before (read with
  /// the first bit as the highest).
  std::array<std::uint32_t, 256> words{};

  static huffman_table of(const histogram& coded, const code_lengths& by_symbol) {
    huffman_table table;
    for (std::size_t symbol = 0; symbol < 256; ++symbol) {
      if (coded.counts[symbol] == 0) continue;
      table.symbols[table.count] = static_cast<std::uint8_t>(symbol);
      table.lengths[table.count++] = by_symbol[symbol];
    }
    table.assign_words();
    return table;
  }

  /// Returns the size in bytes of the record of a table with `count` symbols.
  static constexpr std::size_t record_bytes(std::size_t count) noexcept { return 4 + 2 * count; }

  /// Appends the record: u8 mapping, u8 longest length, u16 count, symbols, lengths.
  void append_to(std::vector<std::byte>& section) const {
    std::size_t at = section.size();
    section.resize(at + record_bytes(count));
    section[at] = static_cast<std::byte>(slot_mapping::code_words);
    section[at + 1] = static_cast<std::byte>(longest);
    store_le(&section[at + 2], static_cast<std::uint16_t>(count));
    at += 4;
    for (unsigned i = 0; i < count; ++i) section[at++] = static_cast<std::byte>(symbols[i]);
    for (unsigned i = 0; i < count; ++i) section[at++] = static_cast<std::byte>(lengths[i]);
  }

  /// Reads the record at `position` of the tables section and moves `position` past it.
  static result<huffman_table> read(std::span<const std::byte> section, std::size_t& position, split_map map);

 private:
  void assign_words() {
    longest = *std::max_element(lengths.begin(), lengths.begin() + count);
    std::uint64_t next = 0;  // first bit highest
    for (unsigned length = 1; length <= longest; ++length) {
      for (unsigned i = 0; i < count; ++i) {
        if (lengths[i] != length) continue;
        words[i] = 0;
        for (unsigned bit = 0; bit < length; ++bit)
          words[i] |= static_cast<std::uint32_t>(next >> bit & 1U) << (length - 1 - bit);
        ++next;
      }
      next <<= 1;
    }
  }
};

template <unsigned Limit>
result<huffman_table<Limit>> huffman_table<Limit>::read(std::span<const std::byte> section, std::size_t& position,
                                                        split_map map) {
  const auto truncated = [&] {
    return error(errc::truncated, "record at ", position, " extends beyond the section of ", section.size(), " bytes");
  };
  if (section.size() - position < 4) return truncated();
  const std::byte* from = section.data() + position;
  if (from[0] != static_cast<std::byte>(slot_mapping::code_words)) {
    return error(errc::unsupported, "slot mapping ", static_cast<unsigned>(from[0]));
  }
  huffman_table table;
  table.count = load_le<std::uint16_t>(from + 2);
  if (table.count == 0 || table.count > 256) {
    return error(errc::corrupt, table.count, " symbols, not 1..256");
  }
  if (section.size() - position < record_bytes(table.count)) return truncated();
  std::uint64_t used = 0;  // parts of the code space, out of 2^Limit
  for (unsigned i = 0; i < table.count; ++i) {
    const auto symbol = static_cast<std::uint8_t>(from[4 + i]);
    const auto length = static_cast<std::uint8_t>(from[4 + table.count + i]);
    if (i > 0 && symbol <= table.symbols[i - 1]) {
      return error(errc::corrupt, "symbol ", symbol, " follows ", table.symbols[i - 1], ", not in ascending order");
    }
    if (symbol >= map.alphabet()) {
      return error(errc::corrupt, "symbol ", symbol, " is too large with ", map.bits, " raw bits");
    }
    if (table.count == 1 ? length != 0 : length == 0 || length > Limit) {
      return error(errc::corrupt, "symbol ", symbol, " of ", table.count, " has an invalid code word of ", length,
                   " bits");
    }
    table.symbols[i] = symbol;
    table.lengths[i] = length;
    used += std::uint64_t{1} << (Limit - length);
  }
  if (used != std::uint64_t{1} << Limit) {
    return error(errc::corrupt, "code words take ", used, " parts of the code space, not 2^", Limit);
  }
  table.assign_words();
  if (static_cast<unsigned>(from[1]) != table.longest) {
    return error(errc::corrupt, "the longest code word has ", table.longest, " bits, not ",
                 static_cast<unsigned>(from[1]));
  }
  position += record_bytes(table.count);
  return table;
}

}  // namespace ecq
