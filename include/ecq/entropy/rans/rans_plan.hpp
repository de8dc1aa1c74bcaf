#pragma once
/// \file
/// rans::plan and the tables of its encoder, made by groups of threads (base/threads.hpp) from counts in shared memory.
/// Same plan, for one class of chunks, and same tables as on the CPU.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/frequencies.hpp"
#include "ecq/entropy/rans/alias_table.hpp"
#include "ecq/entropy/rans/rans_table.hpp"

namespace ecq {

/// What an encoder has to know of a symbol; 16 bytes, to be loaded at once.
struct alignas(16) rans_encode_entry {
  std::uint32_t reciprocal_low;  ///< of ceil(2^(32 + scale bits) / frequency): states divide exactly by it
  std::uint32_t reciprocal_high;
  std::uint32_t start;  ///< direct: the symbol's first slot; alias: the slot of rank r is slots[-(start + r)]
  std::uint32_t frequency;
};

/// Slots of an alias table.
inline constexpr std::uint32_t alias_slot_count = 65536;

/// A plan of one table, and that table.
struct rans_group_plan {
  rans_encode_entry entries[256];  ///< by coded symbol
  detail::rans_shape shape;
  unsigned raw_bits;    ///< of the split
  std::uint32_t count;  ///< of symbols; with 1 nothing is coded
  std::uint8_t symbols[256];
  std::uint32_t frequencies[256];
};

/// Most raw bits, and one more.
inline constexpr unsigned rans_splits = 8;

/// The table of one split, and what it costs.
struct rans_split_work {
  detail::frequency_work table;
  std::uint64_t cost;
};

/// Weighs the split of `raw_bits` raw bits of codes that occur as counts[0], ..., counts[255] say, at least one.
template <shuffling_group Group>
ECQ_HOST_DEVICE void weigh_rans_split(const Group& group, const std::uint64_t* counts, unsigned raw_bits,
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
  const auto shape = detail::rans_shape::of(count);
  detail::normalize_frequencies(group, shape.scale_bits, work.table);
  const std::uint64_t bits =
      detail::coded_bits(group, work.table.counts, work.table.frequencies, count, shape.scale_bits);
  if (group.rank() == 0) {
    work.cost = detail::rans_cost(codes, raw_bits, bits, 8 * detail::rans_record_bytes(count),
                                  shape.mapping == slot_mapping::direct);
  }
}

/// Chooses among `works`, one for each number of raw bits from 0 on, and makes the tables of the encoder: `plan`, and
/// with alias mapping `slots`, alias_slot_count of them.
template <thread_group Group>
ECQ_HOST_DEVICE void choose_rans_split(const Group& group, const rans_split_work (&works)[rans_splits],
                                       detail::alias_work& aliases, rans_group_plan& plan, std::uint16_t* slots) {
  unsigned best = 0;
  for (unsigned raw_bits = 1; raw_bits < rans_splits; ++raw_bits) {
    if (works[raw_bits].cost < works[best].cost) best = raw_bits;
  }
  const detail::frequency_work& table = works[best].table;
  const std::uint32_t count = table.count;
  const auto shape = detail::rans_shape::of(count);
  if (group.rank() == 0) {
    plan.shape = shape;
    plan.raw_bits = best;
    plan.count = count;
  }
  const bool alias = shape.mapping == slot_mapping::alias;
  const std::uint64_t one = std::uint64_t{1} << (32 + shape.scale_bits);
  // Backwards, since q * f - (start + x) is one instruction where start + x - q * f is two.
  constexpr std::uint32_t last_slot = alias_slot_count - 1;
  const std::uint32_t first_start = alias ? 0U - last_slot : 0U;
  // Symbols that do not occur get what does no harm should they turn up.
  for (std::uint32_t symbol = group.rank(); symbol < 256; symbol += group.size()) {
    plan.entries[symbol] = {0, static_cast<std::uint32_t>(one >> 32), first_start, 1};
  }
  group.sync();
  if (group.rank() == 0) {
    std::uint32_t start = first_start;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t frequency = table.frequencies[i];
      plan.entries[table.symbols[i]].start = start;
      start += frequency;
    }
    if (alias && count > 1) {
      detail::build_alias_table(table.frequencies, count, shape.bucket_bits, aliases);
    }
  }
  for (std::uint32_t i = group.rank(); i < count; i += group.size()) {
    const std::uint32_t frequency = table.frequencies[i];
    const std::uint64_t reciprocal = (one + frequency - 1) / frequency;
    rans_encode_entry& entry = plan.entries[table.symbols[i]];
    entry.reciprocal_low = static_cast<std::uint32_t>(reciprocal & 0xFFFFFFFFU);
    entry.reciprocal_high = static_cast<std::uint32_t>(reciprocal >> 32);
    entry.frequency = frequency;
    plan.symbols[i] = table.symbols[i];
    plan.frequencies[i] = frequency;
  }
  group.sync();
  if (!alias || count == 1) return;
  for (std::uint32_t slot = group.rank(); slot < alias_slot_count; slot += group.size()) {
    const std::uint32_t bucket = slot & ((1U << shape.bucket_bits) - 1U);
    const std::uint32_t offset = slot >> shape.bucket_bits;
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t rank = own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU;
    const std::uint32_t number = own ? bucket : aliases.alias[bucket];
    slots[0U - (plan.entries[table.symbols[number]].start + rank)] = static_cast<std::uint16_t>(slot);
  }
}

}  // namespace ecq
