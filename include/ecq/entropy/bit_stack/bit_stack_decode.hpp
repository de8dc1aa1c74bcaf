#pragma once
/// \file
/// Run-time choice of the decode kernels of tANS and Huffman for the machine at hand.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_decode_avx2.hpp"
#include "ecq/entropy/bit_stack/bit_stack_decode_avx512.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq::detail {

/// Decodes as many whole groups of each chunk as the kernels of `isa` can; may reorder `cursors`.
template <class Lookup>
void bit_stack_advance([[maybe_unused]] const Lookup& table, [[maybe_unused]] instruction_set isa,
                       [[maybe_unused]] std::span<bit_stack_cursor*> cursors) {
#if ECQ_X86
  if (isa == instruction_set::avx512) {
    advance_in_runs<4>(cursors, [&](bit_stack_cursor* const* run, std::size_t count, std::size_t groups) {
      using namespace avx512;
      if (count == 1) return bit_stacks_advance<lookups_by_loads, 1>(table, run, groups);
      const bool gathers = machine_has_fast_gathers();
      if (count == 2 && !gathers) return bit_stacks_advance<lookups_by_loads, 2>(table, run, groups);
      return advance_filled<4>(run, count, [&](bit_stack_cursor* const* all) {
        return gathers ? bit_stacks_advance<lookups_by_gathers, 4>(table, all, groups)
                       : bit_stacks_advance<lookups_by_loads, 4>(table, all, groups);
      });
    });
  }
  if (isa == instruction_set::avx2) {
    advance_in_runs<2>(cursors, [&](bit_stack_cursor* const* run, std::size_t count, std::size_t groups) {
      return count == 2 ? avx2::bit_stacks_advance<2>(table, run, groups)
                        : avx2::bit_stacks_advance<1>(table, run, groups);
    });
  }
#endif
}

}  // namespace ecq::detail
