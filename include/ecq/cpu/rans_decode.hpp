#pragma once
/// \file
/// The decode kernels of rANS for the machine at hand, chosen at run time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/config.hpp"
#include "ecq/cpu/instruction_set.hpp"
#include "ecq/cpu/rans_avx2.hpp"
#include "ecq/cpu/rans_avx512.hpp"
#include "ecq/entropy/rans_cursor.hpp"
#include "ecq/entropy/rans_slots.hpp"

namespace ecq::detail {

#if ECQ_X86

/// Calls `advance(cursors, count, groups)` for runs of `Width` or fewer cursors that have `groups` whole groups left
/// each, until all groups are decoded. A chunk that runs out of words stays where it is.
template <std::size_t Width, class Advance>
void advance_in_runs(std::span<rans_cursor*> cursors, const Advance& advance) {
  // Chunks of one length lie together, so that they run side by side to their ends.
  std::stable_sort(cursors.begin(), cursors.end(), [](const rans_cursor* a, const rans_cursor* b) {
    return a->left / group_symbols > b->left / group_symbols;
  });
  for (std::size_t first = 0; first < cursors.size(); first += Width) {
    auto run = cursors.subspan(first, (std::min)(Width, cursors.size() - first));
    while (!run.empty()) {
      const std::size_t groups = run.back()->left / group_symbols;
      if (groups > 0 && !advance(run.data(), run.size(), groups)) break;
      const std::size_t done = run.back()->left / group_symbols;
      while (!run.empty() && run.back()->left / group_symbols == done) run = run.first(run.size() - 1);
    }
  }
}

#endif

/// Takes each chunk on by as many whole groups as the kernels of `isa` can, in any order of `cursors`.
inline void rans_advance([[maybe_unused]] const rans_slots_view& table, [[maybe_unused]] instruction_set isa,
                         [[maybe_unused]] std::span<rans_cursor*> cursors) {
#if ECQ_X86
  if (isa == instruction_set::avx512) {
    const auto by = [&](const auto& lookup) {
      advance_in_runs<4>(cursors, [&](rans_cursor* const* run, std::size_t count, std::size_t groups) {
        return avx512::rans_advance(lookup, run, count, groups);
      });
    };
    if (table.bucket_bits == 5) return by(alias_lookup<5>(table));
    if (table.bucket_bits == 6) return by(alias_lookup<6>(table));
    if (table.scale_bits <= avx512::direct_lookup::max_scale_bits) return by(avx512::direct_lookup(table));
  }
  if (isa == instruction_set::avx2) {
    const auto by = [&](const auto& tables) {
      advance_in_runs<2>(cursors, [&](rans_cursor* const* run, std::size_t count, std::size_t groups) {
        return avx2::rans_advance(tables, run, count, groups);
      });
    };
    if (table.bucket_bits == 5) return by(avx2::alias_tables<5>(alias_lookup<5>(table)));
    if (table.bucket_bits == 6) return by(avx2::alias_tables<6>(alias_lookup<6>(table)));
  }
#endif
}

}  // namespace ecq::detail
