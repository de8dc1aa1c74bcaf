#pragma once
/// \file
/// Decodes whole groups of chunks of rANS side by side, by an alias table in AVX-512 registers. A sink takes the
/// symbols while they are in registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/hidden_value.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Chunks side by side: their states as halves, lane by lane, and their words.
template <std::size_t Chunks>
struct alias_states {
  ECQ_AVX512 explicit alias_states(rans_cursor* const* cursors) {
    const __m512i even = every(0, 2);
    const __m512i odd = every(1, 2);
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      const __m512i first = _mm512_loadu_si512(cursors[c]->state);
      const __m512i second = _mm512_loadu_si512(cursors[c]->state + 16);
      low[c] = _mm512_permutex2var_epi16(first, even, second);
      high[c] = _mm512_permutex2var_epi16(first, odd, second);
      word[c] = cursors[c]->word;
      end[c] = cursors[c]->end;
    }
  }

  /// Whether a chunk has run out of words.
  [[gnu::always_inline]] inline bool overrun() const {
    bool any = false;
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) any = any || word[c] > end[c];
    return any;
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void prefetch_words() const {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) prefetch<2>(word[c], prefetch_distance);
  }

  /// Moves cursors on by `groups` groups.
  ECQ_AVX512 void leave(rans_cursor* const* cursors, std::size_t groups) const {
    const __m512i first_half = interleaved(0);
    const __m512i second_half = interleaved(16);
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
      _mm512_storeu_si512(cursors[c]->state + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
      cursors[c]->word = word[c];
      cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    }
  }

  __m512i high[Chunks];
  __m512i low[Chunks];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
};

/// Decodes rounds 2 `two` and 2 `two` + 1 of a group of all chunks. Returns false if one of them runs out of words.
template <std::size_t Chunks, unsigned BucketBits>
ECQ_AVX512 [[gnu::always_inline]] inline bool two_rounds(const alias_registers<BucketBits>& table,
                                                         alias_states<Chunks>& at, __m512i (&symbols)[Chunks][2],
                                                         std::size_t two) {
  constexpr bool shorter = Chunks <= 4;
  const __m512i low_byte = _mm512_set1_epi16(255);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    symbols[c][two] = table.template step<shorter, true>(at.high[c], at.low[c], at.word[c]);
  }
  compute_first(at.low);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i later = table.template step<shorter, true>(at.high[c], at.low[c], at.word[c]);
    symbols[c][two] =  // (earlier & 255) | (later << 8)
        _mm512_ternarylogic_epi32(symbols[c][two], low_byte, _mm512_slli_epi16(later, 8), 0xEA);
  }
  compute_first(at.low);
  return !at.overrun();  // two rounds take 64 words, 128 bytes, at most
}

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, or the sink gives
/// up, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
///
/// `sink.take(c, symbols)` takes the symbols of a group of chunk number c, by their numbers in the alias table, and
/// returns false to give up. symbols[0] has the symbols of the group's first two rounds in lanes of 16 bits, the later
/// round's in the high bytes; symbols[1] has those of the other two rounds. Only the low BucketBits bits of a byte
/// count. Once all groups are decoded, `sink.end()`, if there is one, completes the work and returns false to give up.
/// Then `sink.leave(c, cursor)` moves the remaining members of a cursor.
///
/// The code for sinks that do little with a symbol is unrolled. With Sink::rolls, a loop over chunks remains, and with
/// few chunks also one over pairs of rounds: unrolled, the code would be two to three times as large.
template <std::size_t Chunks, unsigned BucketBits, class Sink>
ECQ_AVX512 [[gnu::always_inline]] inline bool advance_groups(const alias_lookup<BucketBits>& lookup,
                                                             rans_cursor* const* cursors, std::size_t groups,
                                                             Sink& sink) {
  alias_states<Chunks> at(cursors);
  const alias_registers<BucketBits> table(lookup);
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i symbols[Chunks][2];
    if constexpr (Sink::rolls && Chunks <= 4) {
      const std::size_t twos = hidden_value(std::size_t{2});
      ECQ_NO_UNROLL
      for (std::size_t two = 0; two < twos; ++two) {
        if (!two_rounds(table, at, symbols, hidden_value(two))) return false;
      }
    } else {
      ECQ_UNROLL
      for (std::size_t two = 0; two < 2; ++two) {
        if (!two_rounds(table, at, symbols, two)) return false;
      }
    }
    at.prefetch_words();
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
  at.leave(cursors, groups);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) sink.leave(c, *cursors[c]);
  return true;
}

/// Like advance_groups(), for a sink that takes symbols as soon as a round of a chunk is decoded. Its work, and the
/// memory that it waits for, spread over the steps of other chunks.
///
/// `sink.run()` returns the number of groups, at least one, for which the sink only takes symbols;
/// `sink.end_run(count)` follows them. For each group of each chunk the sink gets a Sink::group of its own:
/// `sink.begin(c, group)`, `sink.take<BucketBits>(c, round, symbols, group)` for each round, and `sink.end(c, group)`.
/// `sink.leave(c)` is called last. Sink::rounds_apart says whether clang's code is faster if it finishes a round of all
/// chunks before the next one.
template <std::size_t Chunks, unsigned BucketBits, class Sink>
ECQ_AVX512 [[gnu::always_inline]] inline bool advance_rounds(const alias_lookup<BucketBits>& lookup,
                                                             rans_cursor* const* cursors, std::size_t groups,
                                                             Sink& sink) {
  alias_states<Chunks> at(cursors);
  const alias_registers<BucketBits> table(lookup);
  for (std::size_t left = groups; left != 0;) {
    const std::size_t run = (std::min)(left, sink.run());
    for (std::size_t i = 0; i < run; ++i) {
      typename Sink::group group[Chunks];
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) sink.begin(c, group[c]);
      ECQ_UNROLL
      for (std::size_t round = 0; round < rounds_per_group; ++round) {
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          const __m512i symbols = table.template step<false, Sink::rounds_apart>(at.high[c], at.low[c], at.word[c]);
          sink.template take<BucketBits>(c, round, symbols, group[c]);
        }
        if constexpr (Sink::rounds_apart) compute_first(at.low);
        // Two rounds take 64 words, 128 bytes, at most.
        if (round % 2 == 1 && at.overrun()) return false;
      }
      at.prefetch_words();
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) sink.end(c, group[c]);
    }
    sink.end_run(run);
    left -= run;
  }
  at.leave(cursors, groups);
  for (std::size_t c = 0; c < Chunks; ++c) sink.leave(c);
  return true;
}

/// Puts packed bytes of 128 symbols, as in advance_groups(), into the order of the elements.
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
