#pragma once
/// \file
/// The plan of rans::plan() and the tables of the encoder, computed by groups of threads (base/threads.hpp) from counts
/// in shared memory. They are the same tables as on the CPU, and the same plan for one class of chunks.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/frequencies.hpp"
#include "ecq/entropy/rans/alias_table.hpp"
#include "ecq/entropy/rans/rans_division.hpp"
#include "ecq/entropy/rans/rans_table.hpp"

namespace ecq {

/// Table entry of a symbol for an encoder; 16 bytes, loaded at once.
struct alignas(16) rans_encode_entry {
  std::uint32_t reciprocal;  ///< rans_division::reciprocal()
  std::uint32_t limit;       ///< direct: first state that gives up a word; alias: first state >> 16 that does
  std::uint32_t factor;      ///< direct: 2^scale bits - frequency; alias: frequency
  /// The lowest five bits are rans_division::shift(). The highest bits, as many as the scale has, are the symbol's
  /// first slot with direct mapping. With alias mapping, they are the place in `slots` of the symbol's slot of rank 0,
  /// from which the slots of higher ranks run backwards.
  std::uint32_t start_and_shift;
};

/// Number of slots of an alias table.
inline constexpr std::uint32_t alias_slot_count = 65536;

/// A plan with one frequency table, and that table.
struct rans_group_plan {
  rans_encode_entry entries[256];  ///< by coded symbol
  rans_division division;          ///< division of states by all frequencies
  detail::rans_shape shape;
  unsigned raw_bits;    ///< raw bits of the split
  std::uint32_t count;  ///< number of symbols; if 1, nothing is coded
  std::uint8_t symbols[256];
  std::uint32_t frequencies[256];
};

/// Number of splits: one for each number of raw bits, 0 ... 7.
inline constexpr unsigned rans_splits = 8;

/// The frequency table of one split, and the cost of the split.
struct rans_split_work {
  detail::frequency_work table;
  std::uint64_t cost;
};

/// Computes the table and the cost of the split with `raw_bits` raw bits, for rans_direct if `direct`. counts[0], ...,
/// counts[255] say how often each code occurs; at least one code does.
template <shuffling_group Group>
ECQ_HOST_DEVICE void weigh_rans_split(const Group& group, const std::uint64_t* counts, unsigned raw_bits, bool direct,
                                      rans_split_work& work) {
  std::uint64_t* const folded = work.table.gain;  // not used yet
  std::uint64_t own = 0;
  for (std::uint32_t coded = group.rank(); coded < 256; coded += group.size()) {
    std::uint64_t sum = 0;
    for (std::uint32_t code = coded << raw_bits; code < 256 && code < (coded + 1) << raw_bits; ++code) {
      sum += counts[code];
    }
    folded[coded] = sum;
    own += sum;
  }
  const std::uint64_t codes = group.sum(own);
  group.sync();
  detail::list_symbols(group, folded, work.table);
  const std::uint32_t count = work.table.count;
  const auto shape = detail::rans_shape::of(count, direct);
  detail::normalize_frequencies(group, shape.scale_bits, work.table);
  const std::uint64_t bits =
      detail::coded_bits(group, work.table.counts, work.table.frequencies, count, shape.scale_bits);
  if (group.rank() == 0) {
    work.cost = detail::rans_cost(codes, raw_bits, bits, 8 * detail::rans_record_bytes(count),
                                  shape.mapping == slot_mapping::direct);
  }
}

/// Chooses the cheapest of `works`, one for each number of raw bits from 0 on, among those with up to `most_raw_bits`.
/// Makes the tables of the encoder: `plan` and, with alias mapping, `slots`, which has alias_slot_count elements.
/// `direct` is that of weigh_rans_split().
template <thread_group Group>
ECQ_HOST_DEVICE void choose_rans_split(const Group& group, const rans_split_work (&works)[rans_splits],
                                       unsigned most_raw_bits, bool direct, detail::alias_work& aliases,
                                       rans_group_plan& plan, std::uint16_t* slots) {
  unsigned best = 0;
  for (unsigned raw_bits = 1; raw_bits < rans_splits && raw_bits <= most_raw_bits; ++raw_bits) {
    if (works[raw_bits].cost < works[best].cost) best = raw_bits;
  }
  const detail::frequency_work& table = works[best].table;
  const std::uint32_t count = table.count;
  const auto shape = detail::rans_shape::of(count, direct);
  if (group.rank() == 0) {
    plan.shape = shape;
    plan.raw_bits = best;
    plan.count = count;
  }
  const bool alias = shape.mapping == slot_mapping::alias;
  // Alias: rank 0 has the last of a symbol's places in `slots`, because q * f + (start - x) takes one instruction less
  // than start + (x - q * f).
  const unsigned state_bits = 32 - shape.scale_bits;
  const auto entry_of = [&](const rans_division& division, std::uint32_t frequency, std::uint32_t first_slot) {
    const std::uint32_t start = alias ? alias_slot_count - 1 - first_slot : first_slot;
    return rans_encode_entry{.reciprocal = division.reciprocal(frequency),
                             .limit = alias ? frequency : frequency << state_bits,
                             .factor = alias ? frequency : (1U << shape.scale_bits) - frequency,
                             .start_and_shift = (start << state_bits) | division.shift(frequency)};
  };
  // Symbols that do not occur get an entry that does no harm if they turn up.
  for (std::uint32_t symbol = group.rank(); symbol < 256; symbol += group.size()) {
    plan.entries[symbol] = entry_of({shape.scale_bits, false}, 1, 0);
  }
  if (group.rank() == 0) {
    std::uint32_t start = 0;
    std::uint32_t greatest = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t frequency = table.frequencies[i];
      plan.frequencies[i] = start;  // until it is read below
      start += frequency;
      if (frequency > greatest) greatest = frequency;
    }
    plan.division = rans_division::of(greatest, shape.scale_bits);
    if (alias && count > 1) {
      detail::build_alias_table(table.frequencies, count, shape.bucket_bits, aliases);
    }
  }
  group.sync();
  std::uint32_t* const starts = aliases.left;  // no longer used
  for (std::uint32_t i = group.rank(); i < count; i += group.size()) {
    const std::uint32_t frequency = table.frequencies[i];
    const std::uint32_t first_slot = plan.frequencies[i];
    if (alias) starts[i] = alias_slot_count - 1 - first_slot;
    plan.entries[table.symbols[i]] = entry_of(plan.division, frequency, first_slot);
    plan.symbols[i] = table.symbols[i];
    plan.frequencies[i] = frequency;
  }
  group.sync();
  if (!alias || count == 1) return;
  // Bucket by bucket: the ranks of neighbouring threads, and so the places that they write to, follow each other.
  const unsigned offset_bits = alias_table::scale_bits - shape.bucket_bits;
  for (std::uint32_t i = group.rank(); i < alias_slot_count; i += group.size()) {
    const std::uint32_t bucket = i >> offset_bits;
    const std::uint32_t offset = i & ((1U << offset_bits) - 1U);
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t rank = own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU;
    const std::uint32_t number = own ? bucket : aliases.alias[bucket];
    slots[starts[number] - rank] = static_cast<std::uint16_t>((offset << shape.bucket_bits) | bucket);
  }
}

}  // namespace ecq
