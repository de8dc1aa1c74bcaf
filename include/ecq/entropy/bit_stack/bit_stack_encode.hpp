#pragma once
/// \file
/// Run-time choice of the encode kernels of tANS and Huffman for the machine at hand.

#include <cstddef>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_encode_avx2.hpp"
#include "ecq/entropy/bit_stack/bit_stack_encode_avx512.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq::detail {

/// Encodes the rest of the chunks, which must be whole groups, if `isa` has a kernel for it. Otherwise does nothing.
template <class Encoding>
void bit_stack_encode([[maybe_unused]] const Encoding& table, [[maybe_unused]] instruction_set isa,
                      [[maybe_unused]] std::span<bit_stack_encode_cursor> cursors) {
#if ECQ_X86
  using pointers = bit_stack_encode_cursor* const*;
  if (isa == instruction_set::avx512) {
    encode_in_runs<2>(cursors, [&](pointers run, std::size_t count, std::size_t first, std::size_t last) {
      using namespace avx512;
      const auto by = [&]<class Lookups, class Codes>() {
        advance_filled<2>(run, count, [&](auto all) { bit_stacks_encode<Lookups, Codes, 2>(table, all, first, last); });
      };
      if (table.count > 64) {
        machine_has_fast_gathers() ? by.template operator()<lookups_by_gathers, codes_in_memory<lookups_by_gathers>>()
                                   : by.template operator()<lookups_by_loads, codes_in_memory<lookups_by_loads>>();
      } else if constexpr (Encoding::by_state) {
        machine_has_fast_gathers() ? by.template operator()<lookups_by_gathers, codes_in_registers>()
                                   : by.template operator()<lookups_by_loads, codes_in_registers>();
      } else {
        by.template operator()<lookups_by_loads, codes_in_registers>();  // looks nothing up in memory
      }
    });
  }
  if (isa == instruction_set::avx2) {
    encode_in_runs<2>(cursors, [&](pointers run, std::size_t count, std::size_t first, std::size_t last) {
      return count == 2 ? avx2::bit_stacks_encode<2>(table, run, first, last)
                        : avx2::bit_stacks_encode<1>(table, run, first, last);
    });
  }
#endif
}

}  // namespace ecq::detail
