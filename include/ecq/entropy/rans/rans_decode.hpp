#pragma once
/// \file
/// Run-time choice of the decode kernels of rANS for the machine at hand.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/rans/alias_bytes_avx2.hpp"
#include "ecq/entropy/rans/alias_bytes_neon.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_decode_avx2.hpp"
#include "ecq/entropy/rans/rans_decode_avx512.hpp"
#include "ecq/entropy/rans/rans_decode_neon.hpp"
#include "ecq/entropy/rans/rans_direct_decode_avx2.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq::detail {

/// Decodes as many whole groups of each chunk as the kernels of `isa` can; may reorder `cursors`. If `join` asks for
/// it, the first groups become joined elements; the groups after them become symbols.
inline void rans_advance([[maybe_unused]] const rans_slots_view& table, [[maybe_unused]] const element_join& join,
                         [[maybe_unused]] instruction_set isa, [[maybe_unused]] std::span<rans_cursor*> cursors) {
#if ECQ_X86
  if (isa == instruction_set::avx512) {
    const auto by = [&](const auto& lookup, bool many) {
      const auto advance = [&](rans_cursor* const* run, std::size_t count, std::size_t groups) {
        return avx512::rans_advance(lookup, join, run, count, groups);
      };
      many ? advance_in_runs<avx512::many_chunks>(cursors, advance)
           : advance_in_runs<avx512::few_chunks>(cursors, advance);
    };
    // Elements of four bytes are bound by memory, which works better with fewer streams.
    const bool many = join.width < 4;
    if (table.bucket_bits == 5) return by(alias_lookup<5>(table), many);
    if (table.bucket_bits == 6) return by(alias_lookup<6>(table), many);
    if (table.scale_bits <= avx512::direct_lookup::max_scale_bits) return by(avx512::direct_lookup(table), false);
  }
  if (isa == instruction_set::avx2) {
    const auto by = [&](const auto& tables) {
      advance_in_runs<2>(cursors, [&](rans_cursor* const* run, std::size_t count, std::size_t groups) {
        return avx2::rans_advance(tables, run, count, groups);
      });
    };
    if (table.bucket_bits == 5) return by(avx2::alias_bytes<5>(alias_lookup<5>(table)));
    if (table.bucket_bits == 6) return by(avx2::alias_bytes<6>(alias_lookup<6>(table)));
    if (table.scale_bits <= avx2::direct_entries::max_scale_bits) return by(avx2::direct_entries(table));
  }
#elif ECQ_NEON
  if (isa == instruction_set::neon) {
    const auto by = [&](const auto& tables) {
      advance_in_runs<2>(cursors, [&](rans_cursor* const* run, std::size_t count, std::size_t groups) {
        return neon::rans_advance(tables, run, count, groups);
      });
    };
    if (table.bucket_bits == 5) return by(neon::alias_bytes<5>(alias_lookup<5>(table)));
    if (table.bucket_bits == 6) return by(neon::alias_bytes<6>(alias_lookup<6>(table)));
  }
#endif
}

}  // namespace ecq::detail
