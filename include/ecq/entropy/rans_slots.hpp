#pragma once
/// \file
/// Decode tables of rANS: slot of a state -> symbol, its frequency, and its rank among the symbol's slots.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/config.hpp"
#include "ecq/entropy/rans_table.hpp"

namespace ecq {

/// An entry packs frequency (bits 0..15), adjust (16..31) and decoded byte (32..39); rank = offset in bucket or slot
/// + adjust modulo 2^16. Bucket b has entries 2b (its own symbol) and 2b + 1 (its alias).
template <unsigned BucketBits>
struct alias_slots {
  const std::uint64_t* entries;
  const std::uint16_t* dividers;

  static constexpr unsigned scale_bits() { return 16; }
};

/// The slot's entry is entries[entry_of_slot[slot]].
struct direct_slots {
  const std::uint64_t* entries;
  const std::uint8_t* entry_of_slot;
  unsigned bits;

  ECQ_HOST_DEVICE unsigned scale_bits() const { return bits; }
};

/// Owns the decode table of one frequency table. The decoded byte is the symbol shifted left by the map's raw bits.
class rans_slots {
 public:
  rans_slots(const rans_table& table, split_map map)
      : mapping_(table.mapping),
        bucket_bits_(table.bucket_bits),
        scale_bits_(table.frequencies.scale_bits),
        constant_(table.frequencies.count == 1),
        first_symbol_(map.join(table.frequencies.symbols[0], 0)) {
    if (constant_) return;
    const auto entry = [&](std::size_t number, std::uint32_t adjust) {
      return table.frequencies.frequencies[number] | (std::uint64_t{adjust & 0xFFFFU} << 16) |
             (std::uint64_t{map.join(table.frequencies.symbols[number], 0)} << 32);
    };
    if (mapping_ == slot_mapping::alias) {
      const alias_table aliases = alias_table::build(table.used_frequencies(), bucket_bits_);
      dividers_ = aliases.divider;
      for (std::size_t b = 0; b < std::size_t{1} << bucket_bits_; ++b) {
        if (b < table.frequencies.count) entries_[2 * b] = entry(b, 0);
        entries_[2 * b + 1] =
            entry(aliases.alias[b] < table.frequencies.count ? aliases.alias[b] : 0, aliases.adjust[b]);
      }
      return;
    }
    entry_of_slot_.resize(std::size_t{1} << scale_bits_);
    std::uint32_t start = 0;
    for (std::size_t i = 0; i < table.frequencies.count; ++i) {
      const std::uint32_t frequency = table.frequencies.frequencies[i];
      entries_[i] = entry(i, 0U - start);
      std::fill_n(entry_of_slot_.begin() + start, frequency, static_cast<std::uint8_t>(i));
      start += frequency;
    }
  }

  /// Calls `use` with alias_slots<5>, alias_slots<6> or direct_slots. Not for a constant table.
  template <class Use>
  auto visit(Use&& use) const {
    if (mapping_ == slot_mapping::direct) {
      return use(direct_slots{entries_.data(), entry_of_slot_.data(), scale_bits_});
    }
    if (bucket_bits_ == 5) return use(alias_slots<5>{entries_.data(), dividers_.data()});
    return use(alias_slots<6>{entries_.data(), dividers_.data()});
  }

  /// One symbol alone: nothing is coded, every code's coded part is constant_code().
  bool constant() const noexcept { return constant_; }
  std::uint8_t constant_code() const noexcept { return first_symbol_; }

 private:
  slot_mapping mapping_;
  unsigned bucket_bits_;
  unsigned scale_bits_;
  bool constant_;
  std::uint8_t first_symbol_;
  std::array<std::uint16_t, alias_table::max_buckets> dividers_{};
  std::array<std::uint64_t, 256> entries_{};
  std::vector<std::uint8_t> entry_of_slot_;
};

}  // namespace ecq
