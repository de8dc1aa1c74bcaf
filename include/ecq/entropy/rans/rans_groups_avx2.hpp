#pragma once
/// \file
/// Decodes whole groups of chunks of rANS side by side with AVX2. States are kept in 16-bit halves, and a table of
/// permutations expands words. A sink takes the symbols while they are in registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/word_permutations.hpp"

namespace ecq::detail::avx2 {

ECQ_AVX2 inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
ECQ_AVX2 inline __m128i load_half(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
ECQ_AVX2 inline __m256i join(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/// Takes 16-bit indices out of a vector by scalar instructions. (Storing the vector and loading each index takes fewer
/// instructions, but forwarding such stores takes so long that decoding is slower by a third.)
struct index_extractor {
  std::uint64_t second = 0x1010;  ///< for BEXTR: 16 bits from bit 16, or 32
  std::uint64_t third = 0x1020;

  index_extractor() {
    __asm__("" : "+r"(second), "+r"(third));  // compilers that know the values prefer three instructions to one
  }

  ECQ_AVX2 std::array<std::size_t, 4> operator()(std::int64_t four) const {
    const auto from = static_cast<std::uint64_t>(four);
    return {from & 0xFFFFU, __bextr_u64(from, second), __bextr_u64(from, third), from >> 48};
  }
};

/// The fields that decoding needs of the slots of 16 states.
struct slot_fields {
  __m256i frequency;  ///< state = high half * frequency + rank
  __m256i rank;
  __m256i symbol;  ///< the low byte
};

/// The fields that decoding needs of the slots of all states of a chunk, lanes 0..15 first.
struct wide_slot_fields {
  __m256i frequency[2];
  __m256i rank[2];
  __m256i symbol;  ///< bytes of lanes 0..7, 16..23, 8..15, 24..31
};

/// The states of a chunk, lanes 0..15 in the first register of each half, 16..31 in the second.
struct split_states {
  __m256i low[2];
  __m256i high[2];

  split_states() = default;
  ECQ_AVX2 void read(const std::uint32_t* state) {
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const __m256i first = load(state + 16 * side);
      const __m256i second = load(state + 16 * side + 8);
      low[side] = in_order(_mm256_packus_epi32(_mm256_and_si256(first, mask), _mm256_and_si256(second, mask)));
      high[side] = in_order(_mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16)));
    }
  }

  /// Moves the states of one side on; those that are due take the next words.
  ECQ_AVX2 [[gnu::always_inline]] inline void step(std::size_t side, const slot_fields& slot, const std::byte*& word) {
    const __m256i due = multiply(side, slot.frequency, slot.rank);
    const auto set = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(due, _mm256_setzero_si256())));
    refill(side, due, join(next_words(word, 0, set), next_words(word, set & 0xFFU, set >> 16)));
    word += std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(set));
  }

  /// Moves all states on; those that are due take the next words.
  ECQ_AVX2 [[gnu::always_inline]] inline void step(const wide_slot_fields& slot, const std::byte*& word) {
    const __m256i due[2] = {multiply(0, slot.frequency[0], slot.rank[0]), multiply(1, slot.frequency[1], slot.rank[1])};
    // Bits of lanes 0..7, 16..23, 8..15, 24..31.
    const auto set = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(due[0], due[1])));
    refill(0, due[0], join(next_words(word, 0, set), next_words(word, set & 0xFFU, set >> 16)));
    refill(1, due[1], join(next_words(word, set & 0xFF00FFU, set >> 8), next_words(word, set & 0xFFFFFFU, set >> 24)));
    word += std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(set));
  }

  ECQ_AVX2 void write(std::uint32_t* state) const {
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const __m256i from_low = in_order(low[side]);
      const __m256i from_high = in_order(high[side]);
      auto* const to = reinterpret_cast<__m256i*>(state + 16 * side);
      _mm256_storeu_si256(to, _mm256_unpacklo_epi16(from_low, from_high));
      _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi16(from_low, from_high));
    }
  }

 private:
  /// Computes frequency * high + rank in halves. Returns a mask with all bits set in lanes that are due, which are
  /// those whose upper half is 0.
  ECQ_AVX2 [[gnu::always_inline]] inline __m256i multiply(std::size_t side, __m256i frequency, __m256i rank) {
    const __m256i upper = high[side];
    low[side] = _mm256_add_epi16(_mm256_mullo_epi16(frequency, upper), rank);
    const __m256i carry = _mm256_min_epu16(_mm256_subs_epu16(rank, low[side]), _mm256_set1_epi16(1));
    high[side] = _mm256_add_epi16(_mm256_mulhi_epu16(frequency, upper), carry);
    return _mm256_cmpeq_epi16(high[side], _mm256_setzero_si256());
  }

  ECQ_AVX2 [[gnu::always_inline]] inline void refill(std::size_t side, __m256i due, __m256i words) {
    high[side] = _mm256_or_si256(high[side], _mm256_and_si256(due, low[side]));  // due states have an upper half of 0
    low[side] = _mm256_or_si256(_mm256_andnot_si256(due, low[side]), words);
  }

  /// Returns the words for the eight lanes in the low bits of `lanes`, which come after the words for the lanes in
  /// `before`.
  ECQ_AVX2 static __m128i next_words(const std::byte* word, unsigned before, unsigned lanes) {
    return _mm_shuffle_epi8(load_half(word + std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(before))),
                            load_half(word_permutations[lanes & 0xFFU].data()));
  }

  /// Swaps the middle 64-bit quarters, since packing and unpacking work on each half of a register.
  ECQ_AVX2 static __m256i in_order(__m256i quarters) { return _mm256_permute4x64_epi64(quarters, 0xD8); }
};

/// Makes clang take all steps of a round before any of the next one. Otherwise it would put the next step of a chunk
/// right behind the one that it waits for, where a core finds nothing else to do.
template <std::size_t Chunks>
ECQ_AVX2 [[gnu::always_inline]] inline void compute_first([[maybe_unused]] split_states (&states)[Chunks]) {
#if defined(__clang__)
  if constexpr (Chunks == 2) {
    __asm__("" : "+x"(states[0].low[0]), "+x"(states[0].low[1]), "+x"(states[1].low[0]), "+x"(states[1].low[1]));
  }
#endif
}

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, or the sink gives
/// up, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
///
/// `table.look_up(low)` returns the fields of slots, given the lower halves of states. With Table::wide it takes both
/// sides of a chunk and returns wide_slot_fields. Otherwise it takes one side, with an index_extractor, and returns
/// slot_fields.
///
/// `sink.take(c, symbols)` takes the symbols of a group of chunk number c, as `table` returns them, and returns false
/// to give up. symbols[side] are those of lanes 16 side, 16 side + 1, ...: symbols[side][0] has the symbols of the
/// group's first two rounds in lanes of 16 bits, the later round's in the high bytes; symbols[side][1] has those of the
/// other two rounds. Once all groups are decoded, `sink.leave(c, cursor)` moves the remaining members of a cursor.
template <std::size_t Chunks, class Table, class Sink>
ECQ_AVX2 [[gnu::always_inline]] inline bool advance_groups(const Table& table, rans_cursor* const* cursors,
                                                           std::size_t groups, Sink& sink) {
  constexpr std::size_t units = 2 * Chunks;  // units of 16 lanes; unit u is side u / Chunks of chunk u % Chunks
  split_states states[Chunks];
  const std::byte* word[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    states[c].read(cursors[c]->state);
    word[c] = cursors[c]->word;
  }
  alignas(32) std::byte frame[32];
  __asm__ volatile("" : : "r"(frame));  // clang aligns spilled registers only if something else is aligned
  [[maybe_unused]] const index_extractor extract;
  // Each unit that is looked up by loads is looked up before the previous one takes its words. Otherwise loads that
  // wait for their indices would fill a hardware queue, and nothing behind them would begin.
  slot_fields upcoming;
  if constexpr (!Table::wide) upcoming = table.look_up(states[0].low[0], extract);
  for (std::size_t group = 0; group < groups; ++group) {
    __m256i symbols[Chunks][2][2];
    ECQ_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
      if constexpr (Table::wide) {
        __m256i bytes[2][Chunks];
        ECQ_UNROLL
        for (auto& of_round : bytes) {
          ECQ_UNROLL
          for (std::size_t c = 0; c < Chunks; ++c) {
            const wide_slot_fields slot = table.look_up(states[c].low);
            of_round[c] = slot.symbol;
            states[c].step(slot, word[c]);
          }
          compute_first(states);
        }
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          symbols[c][0][pair] = _mm256_unpacklo_epi8(bytes[0][c], bytes[1][c]);
          symbols[c][1][pair] = _mm256_unpackhi_epi8(bytes[0][c], bytes[1][c]);
        }
      } else {
        ECQ_UNROLL
        for (int later = 0; later < 2; ++later) {
          ECQ_UNROLL
          for (std::size_t unit = 0; unit < units; ++unit) {
            const std::size_t c = unit % Chunks;
            const std::size_t side = unit / Chunks;
            const std::size_t next_unit = (unit + 1) % units;
            const slot_fields slot = upcoming;
            upcoming = table.look_up(states[next_unit % Chunks].low[next_unit / Chunks], extract);
            states[c].step(side, slot, word[c]);
            symbols[c][side][pair] = later == 0 ? slot.symbol
                                                : _mm256_blendv_epi8(_mm256_slli_epi16(slot.symbol, 8),
                                                                     symbols[c][side][pair], _mm256_set1_epi16(0xFF));
          }
        }
      }
      // Two rounds take 64 words, 128 bytes, at most.
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > cursors[c]->end;
      if (overrun) return false;
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      if (!sink.take(c, symbols[c])) return false;
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    states[c].write(cursors[c]->state);
    cursors[c]->word = word[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    sink.leave(c, *cursors[c]);
  }
  return true;
}

}  // namespace ecq::detail::avx2

#endif
