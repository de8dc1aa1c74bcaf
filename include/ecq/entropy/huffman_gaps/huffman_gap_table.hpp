#pragma once
/// \file
/// The look-up table with which a group of threads decodes gap arrays, up to four code words at once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman/huffman_table.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/warp_table.hpp"

namespace ecq {

/// Entry for one value of the next `bits` bits: two 32-bit words. The first word has the decoded bytes of all code
/// words that end within these bits, but at most four. The second word, the info, has the number of bits that these
/// code words take together (bits 0..6), the number of code words (8..15), and which of the bits are the last of a code
/// word (16..26). So sums of infos are sums of bits and of code words. If not even the first code word ends within the
/// bits, the info is `beyond`: more bits and more code words than a window has.
struct gap_entry {
  static constexpr unsigned bits = 11;
  static constexpr std::uint32_t count = std::uint32_t{1} << bits;
  static constexpr std::uint32_t beyond = 64U | (64U << 8);

  static ECQ_HOST_DEVICE constexpr std::uint32_t length(std::uint32_t info) { return info & 0x1FU; }
  static ECQ_HOST_DEVICE constexpr std::uint32_t codes(std::uint32_t info) { return info >> 8 & 0xFFU; }
  static ECQ_HOST_DEVICE constexpr std::uint32_t ends(std::uint32_t info) { return info >> 16; }
};

/// Appends the entries of a table to `image` and returns their description. For code words of more than gap_entry::bits
/// bits, the entries of huffman_cascade follow as 16-bit halves, with decoded bytes instead of symbols. In the result,
/// `bits` is the length of the longest code word and `bits_behind` that of the shortest. The entries begin at a
/// multiple of 16 bytes.
inline warp_table append_gap_table(const huffman_table<32>& table, split_map map, std::vector<std::uint32_t>& image) {
  if (table.count == 1) return detail::constant_warp_table(warp_coding::constant, table.symbols[0], map);
  image.resize((image.size() + 3) / 4 * 4);
  const huffman_wide words(table);
  unsigned shortest = table.longest;
  for (unsigned i = 0; i < table.count; ++i) shortest = (std::min)(shortest, unsigned{table.lengths[i]});
  warp_table described = detail::described(warp_coding::huffman_gaps, table.longest, image, [&] {
    for (std::uint32_t index = 0; index < gap_entry::count; ++index) {
      std::uint32_t codes = 0;
      std::uint32_t ends = 0;
      unsigned used = 0;
      unsigned count = 0;
      for (; count < 4; ++count) {
        const std::uint16_t entry = words.view().look_up(index >> used);
        if (used + huffman_entry::length(entry) > gap_entry::bits) break;
        used += huffman_entry::length(entry);
        codes |= std::uint32_t{map.join(static_cast<std::uint8_t>(huffman_entry::value(entry)), 0)} << (8 * count);
        ends |= 1U << (used - 1);
      }
      image.push_back(codes);
      image.push_back(count == 0 ? gap_entry::beyond : used | (count << 8) | (ends << 16));
    }
    if (table.longest <= gap_entry::bits) return;
    const huffman_cascade cascade(table);
    for (std::size_t at = 0; at < 256 * cascade.tables(); at += 2) {
      const auto half = [&](std::uint16_t entry) -> std::uint32_t {
        const unsigned length = huffman_entry::length(entry);
        const unsigned value = huffman_entry::value(entry);
        return length == 0 ? entry : huffman_entry::make(map.join(static_cast<std::uint8_t>(value), 0), length);
      };
      image.push_back(half(cascade.view().entries[at]) | (half(cascade.view().entries[at + 1]) << 16));
    }
  });
  described.bits_behind = static_cast<std::uint8_t>(shortest);
  return described;
}

}  // namespace ecq
