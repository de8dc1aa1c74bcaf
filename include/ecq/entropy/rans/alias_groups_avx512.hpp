#pragma once
/// \file
/// Walks through whole groups of chunks of rANS side by side, by an alias table in AVX-512 registers. What becomes of
/// the symbols is up to a sink, while they are in registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/hidden_count.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// How many bytes ahead words and the memory of elements are prefetched; raw bits are prefetched twice as far ahead.
/// The states keep the core busy, so memory is free to deliver, but the hardware cannot prefetch so many streams by
/// itself.
inline constexpr std::size_t prefetch_distance = 512;

/// Rounds 2 `two` and 2 `two` + 1 of a group of all chunks. Returns false if one of them runs out of words.
template <bool Packs, std::size_t Chunks, unsigned BucketBits, std::size_t Registers>
ECQ_AVX512 [[gnu::always_inline]] inline bool two_rounds(const alias_registers<BucketBits>& table,
                                                         __m512i (&high)[Chunks], __m512i (&low)[Chunks],
                                                         const std::byte* (&word)[Chunks],
                                                         const std::byte* const (&end)[Chunks],
                                                         __m512i (&symbols)[Chunks][Registers], std::size_t two) {
  constexpr bool shorter = Chunks <= 4;
  const __m512i low_byte = _mm512_set1_epi16(255);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    symbols[c][Packs ? two : 2 * two] = table.template step<shorter>(high[c], low[c], word[c]);
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i later = table.template step<shorter>(high[c], low[c], word[c]);
    if constexpr (Packs) {
      symbols[c][two] =  // (earlier & 255) | (later << 8)
          _mm512_ternarylogic_epi32(symbols[c][two], low_byte, _mm512_slli_epi16(later, 8), 0xEA);
    } else {
      symbols[c][2 * two + 1] = later;
    }
  }
  // Two rounds take 64 words, 128 bytes, at most.
  bool overrun = false;
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > end[c];
  return !overrun;
}

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, or the sink gives
/// up, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
///
/// `sink.take(c, symbols)` takes the symbols of a group of chunk number c, by their numbers in the alias table, and
/// returns false to give up. With Sink::packs, symbols[0] has those of the first two of a group's rounds in the lanes
/// of 16 bits, the later round's in the high bytes, and symbols[1] those of the others; without it, symbols[i] has
/// those of round i in the low BucketBits bits of the lanes, whose other bits are anything. Once all groups are
/// decoded, `sink.end()`, if there is one, does what is left and returns false to give up, and `sink.leave(c, cursor)`
/// moves what else a cursor has.
///
/// Sinks that do little with a symbol are unrolled. With Sink::rolls, a loop over chunks remains, and with few chunks
/// one over pairs of rounds: both take no time, and unrolled, their code would be two to three times as large. With
/// many chunks, the latter would cost a product of one row of x 3 to 6 %.
template <std::size_t Chunks, unsigned BucketBits, class Sink>
ECQ_AVX512 [[gnu::always_inline]] inline bool advance_groups(const alias_lookup<BucketBits>& lookup,
                                                             rans_cursor* const* cursors, std::size_t groups,
                                                             Sink& sink) {
  constexpr int registers = Sink::packs ? 2 : rounds_per_group;
  const __m512i even = every(0, 2);
  const __m512i odd = every(1, 2);
  __m512i high[Chunks];  // halves of the states, lane by lane
  __m512i low[Chunks];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i first = _mm512_loadu_si512(cursors[c]->state);
    const __m512i second = _mm512_loadu_si512(cursors[c]->state + 16);
    low[c] = _mm512_permutex2var_epi16(first, even, second);
    high[c] = _mm512_permutex2var_epi16(first, odd, second);
    word[c] = cursors[c]->word;
    end[c] = cursors[c]->end;
  }
  const alias_registers<BucketBits> table(lookup);
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i symbols[Chunks][registers];
    if constexpr (Sink::rolls && Chunks <= 4) {
      const std::size_t twos = hidden_count(2);
      ECQ_NO_UNROLL
      for (std::size_t two = 0; two < twos; ++two) {
        if (!two_rounds<Sink::packs>(table, high, low, word, end, symbols, hidden_count(two))) return false;
      }
    } else {
      ECQ_UNROLL
      for (std::size_t two = 0; two < 2; ++two) {
        if (!two_rounds<Sink::packs>(table, high, low, word, end, symbols, two)) return false;
      }
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) prefetch<2>(word[c], prefetch_distance);
    if constexpr (Sink::rolls) {
      ECQ_NO_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        if (!sink.take(c, symbols[c])) return false;
      }
    } else {
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        if (!sink.take(c, symbols[c])) return false;
      }
    }
  }
  if constexpr (requires { sink.end(); }) {
    if (!sink.end()) return false;
  }
  const __m512i first_half = interleaved(0);
  const __m512i second_half = interleaved(16);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
    cursors[c]->word = word[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    sink.leave(c, *cursors[c]);
  }
  return true;
}

/// Bytes of 128 symbols in the order of the elements, from packed ones: see advance_groups.
struct symbols_in_order {
  ECQ_AVX512 symbols_in_order() : places{interleaved(0), interleaved(16)} {}

  ECQ_AVX512 __m512i operator()(const __m512i (&packed)[2], std::size_t half) const {
    return _mm512_permutex2var_epi16(packed[0], places[half], packed[1]);
  }

  __m512i places[2];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
