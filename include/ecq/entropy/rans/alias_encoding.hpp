#pragma once
/// \file
/// Alias tables of rANS in the layout that vector registers of an encoder load, for division by a symbol's frequency
/// and for the slot of a rank.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/entropy/rans/alias_table.hpp"

namespace ecq::detail {

/// Encode table of 16-bit entries, by number of a symbol.
///
/// Division by a frequency takes its divisor, frequency << shift in [2^15, 2^16), and reciprocal = floor((2^32 - 1) /
/// divisor) - 2^16 (Moeller and Granlund 2011, *Improved division by invariant integers*).
///
/// The ranks of a symbol below `own` are slots of its own bucket. Each other rank has a position, rank + `first` modulo
/// 2^16, in a list of all slots that belong to aliases, by symbol, bucket and slot. A binary search finds the last
/// bucket of this list that does not begin after the position. At each level, the bits of its number found so far, the
/// highest in bit 0, select the entry of the level's row that decides about the next bit. With the bucket's `offset`,
/// the slot is (position << bucket_bits) + offset modulo 2^16; a slot of a symbol's own bucket is (rank << bucket_bits)
/// + number.
struct alias_encoding {
  static constexpr std::size_t max_symbols = alias_table::max_buckets;
  static constexpr unsigned max_levels = 6;
  static constexpr unsigned shift_bits = 4;

  alias_encoding() = default;

  /// Makes the encode table of `table`, whose symbols have these `frequencies`. Precondition: each is less than 2^16.
  alias_encoding(std::span<const std::uint32_t> frequencies, const alias_table& table)
      : bucket_bits(table.bucket_bits) {
    const std::size_t buckets = std::size_t{1} << table.bucket_bits;
    const std::uint32_t width = 65536U >> table.bucket_bits;
    std::uint16_t begins[max_symbols] = {};
    std::uint16_t offsets[max_symbols] = {};
    std::size_t pieces = 0;
    std::uint32_t position = 0;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const unsigned shift = 16 - static_cast<unsigned>(std::bit_width(frequencies[i]));
      const std::uint32_t normal = frequencies[i] << shift;
      divisor[i] = static_cast<std::uint16_t>(normal);
      reciprocal[i] = static_cast<std::uint16_t>(~std::uint32_t{0} / normal);
      own_and_shift[i] = static_cast<std::uint16_t>(std::uint32_t{table.divider[i]} << shift_bits | shift);
      first[i] = static_cast<std::uint16_t>(position - table.divider[i]);
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        if (table.divider[bucket] == width || table.alias[bucket] != i) continue;
        begins[pieces] = static_cast<std::uint16_t>(position);
        offsets[pieces] = static_cast<std::uint16_t>(((table.divider[bucket] - position) << bucket_bits) + bucket);
        position += width - table.divider[bucket];
        ++pieces;
      }
    }
    levels = pieces > 32 ? 6 : 5;
    for (std::size_t found = 0; found < std::size_t{1} << levels; ++found) {
      const std::size_t piece = number_of(found, levels);
      offset[found] = piece < pieces ? offsets[piece] : std::uint16_t{0};
    }
    for (unsigned level = 0; level < levels; ++level) {
      const std::size_t half = std::size_t{1} << (levels - 1 - level);
      for (std::size_t found = 0; found < std::size_t{1} << level; ++found) {
        const std::size_t piece = number_of(found, levels) + half;
        begin[level][found] = piece < pieces ? begins[piece] : std::uint16_t{0xFFFF};  // behind all positions
      }
    }
  }

  /// Returns the slot of a rank. Kernels compute the same for many ranks.
  std::uint16_t slot(std::size_t number, std::uint32_t rank) const {
    if (rank < own_and_shift[number] >> shift_bits) return static_cast<std::uint16_t>((rank << bucket_bits) + number);
    const std::uint32_t position = (rank + first[number]) & 0xFFFFU;
    std::uint32_t found = 0;
    for (unsigned level = 0; level < levels; ++level) found |= (position >= begin[level][found] ? 1U : 0U) << level;
    return static_cast<std::uint16_t>((position << bucket_bits) + offset[found]);
  }

  unsigned bucket_bits = 5;
  unsigned levels = 5;  ///< levels of the search: 6 if more than 32 buckets hold slots of aliases
  std::uint16_t divisor[max_symbols] = {};
  std::uint16_t reciprocal[max_symbols] = {};
  std::uint16_t own_and_shift[max_symbols] = {};  ///< own << shift_bits | shift
  std::uint16_t first[max_symbols] = {};
  std::uint16_t begin[max_levels][32] = {};  ///< where buckets begin in the list, by level and bits found
  std::uint16_t offset[max_symbols] = {};    ///< by bits found

 private:
  static std::size_t number_of(std::size_t found, unsigned bits) {
    std::size_t number = 0;
    for (unsigned bit = 0; bit < bits; ++bit) number |= (found >> bit & 1U) << (bits - 1 - bit);
    return number;
  }
};

}  // namespace ecq::detail
