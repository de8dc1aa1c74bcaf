#pragma once
/// \file
/// Decode tables of rANS, from the slot of a state to its symbol, the symbol's frequency, and the slot's rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/entropy/rans/rans_table.hpp"

namespace ecq {

/// Looks up slots in an alias table. An entry packs frequency (bits 0..15), adjust (16..31) and decoded byte (32..39);
/// rank = offset in bucket or slot + adjust modulo 2^16. Bucket b has entries 2b (its own symbol) and 2b + 1 (its
/// alias).
template <unsigned BucketBits>
struct alias_slots {
  const std::uint64_t* entries;
  const std::uint16_t* dividers;

  static constexpr unsigned scale_bits() { return 16; }
};

/// Looks up slots in a direct table: a slot's entry is entries[entry_of_slot[slot]].
struct direct_slots {
  const std::uint64_t* entries;
  const std::uint8_t* entry_of_slot;
  unsigned bits;

  unsigned scale_bits() const { return bits; }
};

/// A view of the decode table of one frequency table. With a single symbol (`constant`), nothing is coded and every
/// code's coded part is `constant_code`.
struct rans_slots_view {
  const std::uint64_t* entries = nullptr;
  const std::uint16_t* dividers = nullptr;      ///< alias: 2^bucket_bits of them
  const std::uint8_t* entry_of_slot = nullptr;  ///< direct: 2^scale_bits of them
  unsigned bucket_bits = 0;                     ///< 5 or 6; 0 for direct
  unsigned scale_bits = 0;
  bool constant = false;
  std::uint8_t constant_code = 0;

  /// Calls `use` with alias_slots<5>, alias_slots<6> or direct_slots. Precondition: the table is not constant.
  template <class Use>
  auto visit(const Use& use) const {
    if (bucket_bits == 5) return use(alias_slots<5>{entries, dividers});
    if (bucket_bits == 6) return use(alias_slots<6>{entries, dividers});
    return use(direct_slots{entries, entry_of_slot, scale_bits});
  }
};

/// Owns a decode table. The decoded byte is the symbol shifted left by the map's raw bits.
class rans_slots {
 public:
  rans_slots(const rans_table& table, split_map map) {
    const frequency_table& used = table.frequencies;
    layout_.scale_bits = used.scale_bits;
    layout_.bucket_bits = table.mapping == slot_mapping::alias ? table.bucket_bits : 0;
    layout_.constant = used.count == 1;
    layout_.constant_code = map.join(used.symbols[0], 0);
    if (layout_.constant) return;
    const auto entry = [&](std::size_t number, std::uint32_t adjust) {
      return used.frequencies[number] | (std::uint64_t{adjust & 0xFFFFU} << 16) |
             (std::uint64_t{map.join(used.symbols[number], 0)} << 32);
    };
    if (table.mapping == slot_mapping::alias) {
      const alias_table aliases = alias_table::build(table.used_frequencies(), table.bucket_bits);
      dividers_ = aliases.divider;
      for (std::size_t bucket = 0; bucket < std::size_t{1} << table.bucket_bits; ++bucket) {
        // Entries without a slot are never looked up: buckets beyond the symbols have divider 0, and full buckets have
        // no alias.
        if (bucket < used.count) entries_[2 * bucket] = entry(bucket, 0);
        if (aliases.alias[bucket] < used.count) {
          entries_[2 * bucket + 1] = entry(aliases.alias[bucket], aliases.adjust[bucket]);
        }
      }
      return;
    }
    entry_of_slot_.resize(std::size_t{1} << used.scale_bits);
    std::uint32_t start = 0;
    for (std::size_t number = 0; number < used.count; ++number) {
      entries_[number] = entry(number, 0U - start);
      std::fill_n(entry_of_slot_.begin() + start, used.frequencies[number], static_cast<std::uint8_t>(number));
      start += used.frequencies[number];
    }
  }

  /// Returns a view that is valid as long as this object.
  rans_slots_view view() const noexcept {
    rans_slots_view table = layout_;
    table.entries = entries_.data();
    table.dividers = dividers_.data();
    table.entry_of_slot = entry_of_slot_.data();
    return table;
  }

 private:
  rans_slots_view layout_;
  std::array<std::uint16_t, alias_table::max_buckets> dividers_{};
  std::array<std::uint64_t, 256> entries_{};
  std::vector<std::uint8_t> entry_of_slot_;
};

}  // namespace ecq
