#pragma once
/// \file
/// rANS tables in the form that kernels of fused products load, and the chunks that these kernels decode.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

#include "ecq/base/result.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"

namespace ecq::detail {

/// Table of a stream whose products are fused. It is made once, for all tasks of a plan.
struct fused_table {
  explicit fused_table(rans_slots made) : slots(std::move(made)) {
    const rans_slots_view view = slots.view();
    if (view.constant) return;
    if (view.bucket_bits == 5) lookup.emplace<alias_lookup<5>>(view);
    if (view.bucket_bits == 6) lookup.emplace<alias_lookup<6>>(view);
  }

  /// Calls `use` with the alias_lookup and returns its result. Returns false if there is none: no kernel takes the
  /// table.
  template <class Use>
  bool visit(const Use& use) const {
    if (const auto* const of_32 = std::get_if<alias_lookup<5>>(&lookup)) return use(*of_32);
    if (const auto* const of_64 = std::get_if<alias_lookup<6>>(&lookup)) return use(*of_64);
    return false;
  }

  /// Adds the values of pairs (pair_values) in matrix number `matrix` of the block, unless they are there.
  void add_pairs(std::size_t matrix, const nibble_list& list, unsigned raw_bits, const std::uint16_t* of_codes) {
    visit([&](const auto& of) {
      pairs.try_emplace(matrix, of.code, list, raw_bits, of_codes);
      return true;
    });
  }

  rans_slots slots;
  std::variant<std::monostate, alias_lookup<5>, alias_lookup<6>> lookup;
  std::map<std::size_t, pair_values> pairs;  ///< with fusion::pairs: by number, for the matrices that parts need
};

/// Chunks of a task that a kernel is decoding.
struct fused_chunks {
  const fused_table* table;
  std::size_t count;
  rans_cursor cursors[weight_chunks];
  rans_cursor* all[weight_chunks];  ///< cursors beyond `count` decode the last chunk again

  /// Whether all chunks have been decoded to their ends.
  bool ended() const {
    return std::all_of(cursors, cursors + count, [&](const rans_cursor& cursor) {
      return cursor.escape == cursor.escape_end &&
             table->slots.view().visit([&](const auto& slots) { return cursor.finish(slots) == errc::ok; });
    });
  }
};

}  // namespace ecq::detail
