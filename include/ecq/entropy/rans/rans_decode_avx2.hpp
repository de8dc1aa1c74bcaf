#pragma once
/// \file
/// Decodes rANS with AVX2, two chunks side by side.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"

namespace ecq::detail::avx2 {

/// A sink of advance_groups() that stores codes.
template <std::size_t Chunks, class Table>
struct code_sink {
  ECQ_AVX2 code_sink(const Table& of_symbols, rans_cursor* const* cursors) : table(of_symbols) {
    for (std::size_t c = 0; c < Chunks; ++c) out[c] = cursors[c]->out;
  }

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&symbols)[2][2]) {
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const __m256i first = table.code_of(_mm256_unpacklo_epi16(symbols[side][0], symbols[side][1]));
      const __m256i second = table.code_of(_mm256_unpackhi_epi16(symbols[side][0], symbols[side][1]));
      auto* const to = reinterpret_cast<__m256i*>(out[c] + 64 * side);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(first, second, 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(first, second, 0x31));
    }
    out[c] += group_symbols;
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.out = out[c]; }

  const Table& table;
  std::uint8_t* out[Chunks];
};

template <std::size_t Chunks, class Table>
ECQ_AVX2 inline bool advance_together(const Table& table, rans_cursor* const* cursors, std::size_t groups) {
  code_sink<Chunks, Table> sink(table, cursors);
  return advance_groups<Chunks>(table, cursors, groups, sink);
}

/// Decodes `groups` whole groups of `count` chunks, 1 or 2, side by side. If one of them runs out of words, returns
/// false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
template <class Table>
inline bool rans_advance(const Table& table, rans_cursor* const* cursors, std::size_t count, std::size_t groups) {
  return count == 2 ? advance_together<2>(table, cursors, groups) : advance_together<1>(table, cursors, groups);
}

}  // namespace ecq::detail::avx2

#endif
