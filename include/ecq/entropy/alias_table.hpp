#pragma once
/// \file
/// The alias method (Walker 1977; for rANS: Giesen 2014): 2^16 slots in 32 or 64 buckets, each holding slots of at most
/// two symbols, so that a decoder's whole table fits in a few vector registers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ecq {

/// Slot -> symbol and rank: bucket = low `bucket_bits` of the slot, t = slot >> bucket_bits. Below `divider` the slot
/// is symbol number `bucket` with rank t, from there on symbol number `alias` with rank t + `adjust` modulo 2^16.
/// The ranks of a symbol are 0 .. frequency - 1, each once.
struct alias_table {
  static constexpr unsigned scale_bits = 16;
  static constexpr std::size_t max_buckets = 64;

  unsigned bucket_bits = 5;
  std::array<std::uint16_t, max_buckets> divider{};
  std::array<std::uint16_t, max_buckets> adjust{};
  std::array<std::uint8_t, max_buckets> alias{};

  /// `frequencies` of symbol numbers 0, 1, ...: at most 2^bucket_bits of them, summing to 2^16. The order of the steps
  /// is normative (docs/format.md).
  static constexpr alias_table build(std::span<const std::uint32_t> frequencies, unsigned bucket_bits) {
    alias_table table;
    table.bucket_bits = bucket_bits;
    const std::size_t buckets = std::size_t{1} << bucket_bits;
    const std::uint32_t width = 65536U >> bucket_bits;
    std::array<std::uint32_t, max_buckets> left{};  // slots that a symbol has still to be given
    std::array<std::uint8_t, max_buckets> under{};  // stacks of symbols below and not below the width of a bucket
    std::array<std::uint8_t, max_buckets> over{};
    std::size_t unders = 0;
    std::size_t overs = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      left[i] = i < frequencies.size() ? frequencies[i] : 0;
      table.divider[i] = static_cast<std::uint16_t>(width);
      table.alias[i] = static_cast<std::uint8_t>(i);
      if (left[i] < width) {
        under[unders++] = static_cast<std::uint8_t>(i);
      } else {
        over[overs++] = static_cast<std::uint8_t>(i);
      }
    }
    while (unders > 0 && overs > 0) {
      const std::size_t poor = under[--unders];
      const std::size_t rich = over[overs - 1];
      table.divider[poor] = static_cast<std::uint16_t>(left[poor]);
      table.alias[poor] = static_cast<std::uint8_t>(rich);
      left[rich] -= width - left[poor];
      if (left[rich] < width) {
        --overs;
        under[unders++] = static_cast<std::uint8_t>(rich);
      }
    }
    std::array<std::uint32_t, max_buckets> used{};
    for (std::size_t i = 0; i < buckets; ++i) used[i] = table.divider[i];
    for (std::size_t i = 0; i < buckets; ++i) {
      if (table.divider[i] == width) continue;
      std::uint32_t& next_rank = used[table.alias[i]];
      table.adjust[i] = static_cast<std::uint16_t>(next_rank - table.divider[i]);
      next_rank += width - table.divider[i];
    }
    return table;
  }
};

}  // namespace ecq
