#pragma once
/// \file
/// The alias method (Walker 1977; for rANS: Giesen 2014): 2^16 slots in 32 or 64 buckets. Each bucket holds slots of at
/// most two symbols, so that a decoder's whole table fits in a few vector registers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"

namespace ecq {

/// Maps a slot to symbol and rank: bucket = low `bucket_bits` of the slot, t = slot >> bucket_bits. If t is below
/// `divider`, the slot is symbol number `bucket` with rank t; otherwise it is symbol number `alias` with rank t +
/// `adjust` modulo 2^16. The ranks of a symbol are 0 .. frequency - 1, each once.
struct alias_table {
  static constexpr unsigned scale_bits = 16;
  static constexpr std::size_t max_buckets = 64;

  unsigned bucket_bits = 5;
  std::array<std::uint16_t, max_buckets> divider{};
  std::array<std::uint16_t, max_buckets> adjust{};
  std::array<std::uint8_t, max_buckets> alias{};

  /// Builds the table from the `frequencies` of symbol numbers 0, 1, ...: at most 2^bucket_bits of them, which sum to
  /// 2^16. The order of the steps is normative (docs/format.md).
  static constexpr alias_table build(std::span<const std::uint32_t> frequencies, unsigned bucket_bits);
};

namespace detail {

/// Working memory for building an alias table in one thread.
struct alias_work {
  std::uint32_t left[alias_table::max_buckets];  ///< slots that a symbol still has to get; later its next rank
  std::uint8_t under[alias_table::max_buckets];  ///< stacks of symbols below and not below the width of a bucket
  std::uint8_t over[alias_table::max_buckets];
  std::uint16_t divider[alias_table::max_buckets];
  std::uint16_t adjust[alias_table::max_buckets];
  std::uint8_t alias[alias_table::max_buckets];
};

ECQ_HOST_DEVICE constexpr void build_alias_table(const std::uint32_t* frequencies, std::uint32_t count,
                                                 unsigned bucket_bits, alias_work& work) {
  const std::uint32_t buckets = 1U << bucket_bits;
  const std::uint32_t width = 65536U >> bucket_bits;
  std::uint32_t unders = 0;
  std::uint32_t overs = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) {
    work.left[i] = i < count ? frequencies[i] : 0;
    work.divider[i] = static_cast<std::uint16_t>(width);
    work.adjust[i] = 0;
    work.alias[i] = static_cast<std::uint8_t>(i);
    if (work.left[i] < width) {
      work.under[unders++] = static_cast<std::uint8_t>(i);
    } else {
      work.over[overs++] = static_cast<std::uint8_t>(i);
    }
  }
  while (unders > 0 && overs > 0) {
    const std::uint32_t poor = work.under[--unders];
    const std::uint32_t rich = work.over[overs - 1];
    work.divider[poor] = static_cast<std::uint16_t>(work.left[poor]);
    work.alias[poor] = static_cast<std::uint8_t>(rich);
    work.left[rich] -= width - work.left[poor];
    if (work.left[rich] < width) {
      --overs;
      work.under[unders++] = static_cast<std::uint8_t>(rich);
    }
  }
  std::uint32_t* const used = work.left;
  for (std::uint32_t i = 0; i < buckets; ++i) used[i] = work.divider[i];
  for (std::uint32_t i = 0; i < buckets; ++i) {
    if (work.divider[i] == width) continue;
    std::uint32_t& next_rank = used[work.alias[i]];
    work.adjust[i] = static_cast<std::uint16_t>(next_rank - work.divider[i]);
    next_rank += width - work.divider[i];
  }
}

}  // namespace detail

constexpr alias_table alias_table::build(std::span<const std::uint32_t> frequencies, unsigned bucket_bits) {
  detail::alias_work work{};
  detail::build_alias_table(frequencies.data(), static_cast<std::uint32_t>(frequencies.size()), bucket_bits, work);
  alias_table table;
  table.bucket_bits = bucket_bits;
  for (std::size_t i = 0; i < std::size_t{1} << bucket_bits; ++i) {
    table.divider[i] = work.divider[i];
    table.adjust[i] = work.adjust[i];
    table.alias[i] = work.alias[i];
  }
  return table;
}

}  // namespace ecq
