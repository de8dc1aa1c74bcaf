#pragma once
/// \file
/// Alias tables of rANS in the layout that vector registers load.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_slots.hpp"

namespace ecq::detail {

/// An alias table in the layout that registers load: bucket and adjust by bucket, frequency and decoded byte by symbol
/// number.
template <unsigned BucketBits>
struct alias_lookup {
  static constexpr unsigned bucket_bits = BucketBits;

  explicit alias_lookup(const rans_slots_view& table) {
    constexpr std::size_t buckets = std::size_t{1} << BucketBits;
    std::uint8_t number_of_code[256] = {};
    for (std::size_t i = 0; i < buckets; ++i) {
      const std::uint64_t own = table.entries[2 * i];
      if (own != 0) number_of_code[own >> 32] = static_cast<std::uint8_t>(i);
      frequency[i] = static_cast<std::uint16_t>(own);
      code[i] = static_cast<std::uint8_t>(own >> 32);
    }
    for (std::size_t i = 0; i < buckets; ++i) {
      unsigned divider = table.dividers[i];
      unsigned alias = number_of_code[table.entries[2 * i + 1] >> 32];
      adjust[i] = static_cast<std::uint16_t>(table.entries[2 * i + 1] >> 16);
      if (divider == 65536 / buckets) {  // all slots are the bucket's own: one less fits in 16 bits and gives the same
        --divider;
        alias = static_cast<unsigned>(i);
        adjust[i] = 0;
      }
      // A bucket without slots of its own has an alias below it, since every symbol has a slot.
      bucket[i] = static_cast<std::uint16_t>(((alias > i ? divider - 1U : divider) << BucketBits) | alias);
    }
    for (std::size_t copy = buckets; copy < 64; ++copy) code[copy] = code[copy - buckets];
  }

  /// Divider and alias in one number. A slot belongs to the alias if it is at least this number, whose low bits are the
  /// number of the alias. So the low bits of the lesser of the two are the symbol's number.
  std::uint16_t bucket[64] = {};
  std::uint16_t adjust[64] = {};
  std::uint16_t frequency[64] = {};
  std::uint8_t code[64] = {};  ///< stored twice with 32 buckets, since a byte permutation reads one more bit
};

/// 16 bits for each number of a bucket or a symbol, by look-ups of their bytes.
template <class ByteLookup>
struct word_lookup {
  void set(std::size_t number, unsigned word) {
    low.set(number, word & 255U);
    high.set(number, word >> 8);
  }

  ByteLookup low, high;
};

}  // namespace ecq::detail
