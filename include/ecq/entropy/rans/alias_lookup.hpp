#pragma once
/// \file
/// Alias tables of rANS in the layout that vector registers load.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_slots.hpp"

namespace ecq::detail {

/// An alias table in the layout that registers load: divider, alias, adjust and the alias's frequency by bucket,
/// frequency and decoded byte by symbol number.
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
      for (std::size_t copy = i; copy < 64; copy += buckets) code[copy] = static_cast<std::uint8_t>(own >> 32);
    }
    for (std::size_t i = 0; i < buckets; ++i) {
      divider[i] = table.dividers[i];
      alias[i] = number_of_code[table.entries[2 * i + 1] >> 32];
      adjust[i] = static_cast<std::uint16_t>(table.entries[2 * i + 1] >> 16);
      alias_frequency[i] = static_cast<std::uint16_t>(table.entries[2 * i + 1]);
      const bool own_alone = divider[i] == 65536 / buckets;  // one less fits in 16 bits with an alias that is no other
      if (own_alone) alias[i] = static_cast<std::uint16_t>(i);
      if (own_alone) adjust[i] = 0;
      if (own_alone) alias_frequency[i] = frequency[i];
      const unsigned limit = own_alone ? divider[i] - 1U : divider[i];
      bucket[i] = static_cast<std::uint16_t>((limit << BucketBits) | alias[i]);
    }
  }

  std::uint16_t divider[64] = {};
  std::uint16_t alias[64] = {};
  std::uint16_t adjust[64] = {};
  /// Divider and alias in one: a slot belongs to the alias if slot | (buckets - 1) is at least this, whose low bits
  /// then are the symbol's number.
  std::uint16_t bucket[64] = {};
  std::uint16_t frequency[64] = {};
  std::uint16_t alias_frequency[64] = {};
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
