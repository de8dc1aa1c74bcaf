#pragma once
/// \file
/// Conversion of pairs of nibbles to symbols, many at a time (stream/pair_io.hpp).

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/stream/escape_cursor.hpp"
#include "ecq/stream/split_pairs_avx2.hpp"
#include "ecq/stream/split_pairs_avx512.hpp"
#include "ecq/stream/split_pairs_neon.hpp"

namespace ecq::detail {

/// Writes the symbols of the leading nibbles, at most `count`, and returns the number of symbols that it wrote, a
/// multiple of 32. Stops before escapes that are missing or not symbols.
inline std::size_t split_many_pairs([[maybe_unused]] const nibble_list& list,
                                    [[maybe_unused]] const std::uint8_t* pairs, [[maybe_unused]] std::size_t count,
                                    [[maybe_unused]] std::uint8_t* symbols, [[maybe_unused]] escape_cursor& escapes,
                                    [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  const instruction_set chosen = chosen_instruction_set(isa);
  count &= ~std::size_t{63};
  if (chosen == instruction_set::avx512) return split_pairs_avx512(list, pairs, count, symbols, escapes);
  if (chosen == instruction_set::avx2) return split_pairs_avx2(list, pairs, count, symbols, escapes);
#elif ECQ_NEON
  if (chosen_instruction_set(isa) == instruction_set::neon) {
    return split_pairs_neon(list, pairs, count & ~std::size_t{31}, symbols, escapes);
  }
#endif
  return 0;
}

}  // namespace ecq::detail
