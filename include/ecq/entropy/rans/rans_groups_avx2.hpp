#pragma once
/// \file
/// Walks through whole groups of chunks of rANS side by side with AVX2: states are kept in 16-bit halves, plain loads
/// fetch table entries, and a table of permutations expands words. What becomes of the symbols is up to a sink, while
/// they are in registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"

namespace ecq::detail::avx2 {

/// For each set of eight lanes, the byte permutation that brings the next words to them and zero to the others.
inline constexpr auto word_permutations = [] {
  std::array<std::array<std::uint8_t, 16>, 256> all{};
  for (std::size_t set = 0; set < 256; ++set) {
    std::uint8_t next = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const bool due = ((set >> lane) & 1U) != 0;
      all[set][2 * lane] = due ? next : std::uint8_t{0x80};
      all[set][2 * lane + 1] = due ? static_cast<std::uint8_t>(next + 1) : std::uint8_t{0x80};
      next = static_cast<std::uint8_t>(next + (due ? 2 : 0));
    }
  }
  return all;
}();

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

/// The same of 32 states.
struct wide_slot_fields {
  __m256i frequency[2];
  __m256i rank[2];
  __m256i symbol;  ///< bytes of lanes 0..7, 16..23, 8..15, 24..31
};

/// Numbers of buckets or symbols as bytes, and which tables of 16 bytes they are beyond.
template <unsigned BucketBits>
struct byte_index {
  static constexpr std::size_t tables = (std::size_t{1} << BucketBits) / 16;

  ECQ_AVX2 explicit byte_index(__m256i numbers) : at(numbers) {
    ECQ_UNROLL
    for (std::size_t i = 1; i < tables; ++i) {
      beyond[i - 1] = _mm256_cmpgt_epi8(at, _mm256_set1_epi8(static_cast<char>(16 * i - 1)));
    }
  }

  __m256i at;
  __m256i beyond[tables - 1];
};

/// A byte for each number of a bucket or a symbol of an alias table.
template <unsigned BucketBits>
struct byte_lookup {
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  byte_lookup() = default;
  explicit byte_lookup(const std::uint8_t (&of_numbers)[64]) {
    for (std::size_t i = 0; i < buckets; ++i) set(i, of_numbers[i]);
  }

  void set(std::size_t number, unsigned byte) {
    bytes[number / 16][number % 16] = bytes[number / 16][number % 16 + 16] = static_cast<std::uint8_t>(byte);
  }

  ECQ_AVX2 [[gnu::always_inline]] inline __m256i operator()(const byte_index<BucketBits>& index) const {
    __m256i found = _mm256_shuffle_epi8(load(bytes[0]), index.at);
    ECQ_UNROLL
    for (std::size_t i = 1; i < buckets / 16; ++i) {
      found = _mm256_blendv_epi8(found, _mm256_shuffle_epi8(load(bytes[i]), index.at), index.beyond[i - 1]);
    }
    return found;
  }

  std::uint8_t bytes[buckets / 16][32];  ///< the same in both halves of a register
};

/// 16 bits for each number.
template <unsigned BucketBits>
struct word_lookup {
  void set(std::size_t number, unsigned word) {
    low.set(number, word & 255U);
    high.set(number, word >> 8);
  }

  byte_lookup<BucketBits> low, high;
};

/// An alias table that byte shuffles look up, all 32 lanes of a chunk at once.
template <unsigned BucketBits>
struct alias_entries {
  static constexpr bool wide = true;
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  explicit alias_entries(const alias_lookup<BucketBits>& from) : codes(from.code) {
    for (std::size_t i = 0; i < buckets; ++i) {
      bucket.set(i, from.bucket[i]);
      adjust.set(i, from.adjust[i]);
      frequency.set(i, from.frequency[i]);
    }
  }

  ECQ_AVX2 [[gnu::always_inline]] inline wide_slot_fields look_up(const __m256i (&low)[2]) const {
    wide_slot_fields found;
    const __m256i mask = _mm256_set1_epi16(buckets - 1);
    const byte_index<BucketBits> own(
        _mm256_packus_epi16(_mm256_and_si256(low[0], mask), _mm256_and_si256(low[1], mask)));
    const __m256i bucket_low = bucket.low(own);
    const __m256i bucket_high = bucket.high(own);
    const __m256i adjust_low = adjust.low(own);
    const __m256i adjust_high = adjust.high(own);
    const __m256i limit[2] = {_mm256_unpacklo_epi8(bucket_low, bucket_high),
                              _mm256_unpackhi_epi8(bucket_low, bucket_high)};
    const __m256i adjusts[2] = {_mm256_unpacklo_epi8(adjust_low, adjust_high),
                                _mm256_unpackhi_epi8(adjust_low, adjust_high)};
    __m256i is_alias[2];
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const __m256i slot = _mm256_or_si256(low[side], mask);
      is_alias[side] = _mm256_cmpeq_epi16(_mm256_max_epu16(slot, limit[side]), slot);
      found.rank[side] =
          _mm256_add_epi16(_mm256_srli_epi16(low[side], BucketBits), _mm256_and_si256(adjusts[side], is_alias[side]));
    }
    found.symbol = _mm256_blendv_epi8(own.at, _mm256_and_si256(bucket_low, _mm256_set1_epi8(buckets - 1)),
                                      _mm256_packs_epi16(is_alias[0], is_alias[1]));
    const byte_index<BucketBits> symbol(found.symbol);
    const __m256i low_bytes = frequency.low(symbol);
    const __m256i high_bytes = frequency.high(symbol);
    found.frequency[0] = _mm256_unpacklo_epi8(low_bytes, high_bytes);
    found.frequency[1] = _mm256_unpackhi_epi8(low_bytes, high_bytes);
    return found;
  }

  /// Turns symbols from `look_up` into codes, byte by byte.
  ECQ_AVX2 __m256i code_of(__m256i symbols) const { return codes(byte_index<BucketBits>(symbols)); }

 private:
  word_lookup<BucketBits> bucket, adjust, frequency;
  byte_lookup<BucketBits> codes;
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
  /// frequency * high + rank, in halves; states that are due take the next words.
  ECQ_AVX2 [[gnu::always_inline]] inline void step(const wide_slot_fields& slot, const std::byte*& word) {
    __m256i next_low[2];
    __m256i next_high[2];
    __m256i due[2];
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      next_low[side] = _mm256_add_epi16(_mm256_mullo_epi16(slot.frequency[side], high[side]), slot.rank[side]);
      const __m256i carry = _mm256_min_epu16(_mm256_subs_epu16(slot.rank[side], next_low[side]), _mm256_set1_epi16(1));
      next_high[side] = _mm256_add_epi16(_mm256_mulhi_epu16(slot.frequency[side], high[side]), carry);
      due[side] = _mm256_cmpeq_epi16(next_high[side], _mm256_setzero_si256());
    }
    const auto set = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(due[0], due[1])));
    const __m256i taken[2] = {
        join(next_words(word, 0, set), next_words(word, set & 0xFFU, set >> 16)),
        join(next_words(word, set & 0xFF00FFU, set >> 8), next_words(word, set & 0xFFFFFFU, set >> 24))};
    word += std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(set));
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      high[side] = _mm256_blendv_epi8(next_high[side], next_low[side], due[side]);
      low[side] = _mm256_or_si256(_mm256_andnot_si256(due[side], next_low[side]), taken[side]);
    }
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
  /// Words for the eight lanes in the low bits of `lanes`, behind those for as many lanes as `before` has.
  ECQ_AVX2 static __m128i next_words(const std::byte* word, std::uint32_t before, std::uint32_t lanes) {
    return _mm_shuffle_epi8(load_half(word + std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(before))),
                            load_half(word_permutations[lanes & 0xFFU].data()));
  }

  /// Swaps the middle 64-bit quarters, since packing and unpacking work on each half of a register.
  ECQ_AVX2 static __m256i in_order(__m256i quarters) { return _mm256_permute4x64_epi64(quarters, 0xD8); }
};

/// Decodes `groups` whole groups of `Chunks` chunks side by side. If one of them runs out of words, or the sink gives
/// up, returns false and moves no cursor. Reads at most 128 bytes beyond the end of a chunk's words.
///
/// `sink.take(c, symbols)` takes the symbols of a group of chunk number c, as `table` gives them, and returns false to
/// give up. symbols[side] are those of lanes 16 side, 16 side + 1, ...: symbols[side][0] has those of the first two of
/// a group's rounds in the lanes of 16 bits, the later round's in the high bytes, and symbols[side][1] those of the
/// others. `sink.leave(c, cursor)` moves what else a cursor has, once all groups are decoded.
template <std::size_t Chunks, class Table, class Sink>
ECQ_AVX2 [[gnu::always_inline]] inline bool advance_groups(const Table& table, rans_cursor* const* cursors,
                                                           std::size_t groups, Sink& sink) {
  constexpr std::size_t units = 2 * Chunks;  // of 16 lanes; unit u is side u / Chunks of chunk u % Chunks
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
  const __m256i zero = _mm256_setzero_si256();
  // Each unit is looked up before the previous one takes its words: loads that wait for their indices fill a hardware
  // queue, and nothing behind them would begin.
  slot_fields upcoming;
  if constexpr (!Table::wide) upcoming = table.look_up(states[0].low[0], extract);
  for (std::size_t group = 0; group < groups; ++group) {
    __m256i symbols[Chunks][2][2];
    ECQ_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
      if constexpr (Table::wide) {
        __m256i bytes[2][Chunks];
        ECQ_UNROLL
        for (int later = 0; later < 2; ++later) {
          ECQ_UNROLL
          for (std::size_t c = 0; c < Chunks; ++c) {
            const wide_slot_fields slot = table.look_up(states[c].low);
            bytes[later][c] = slot.symbol;
            states[c].step(slot, word[c]);
          }
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
            // frequency * high + rank, in halves.
            const __m256i high = states[c].high[side];
            const __m256i next_low = _mm256_add_epi16(_mm256_mullo_epi16(slot.frequency, high), slot.rank);
            const __m256i carry = _mm256_min_epu16(_mm256_subs_epu16(slot.rank, next_low), _mm256_set1_epi16(1));
            const __m256i next_high = _mm256_add_epi16(_mm256_mulhi_epu16(slot.frequency, high), carry);
            const __m256i due = _mm256_cmpeq_epi16(next_high, zero);
            const auto set = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(due, zero)));
            const unsigned first = set & 0xFFU;
            const __m128i first_words =
                _mm_shuffle_epi8(load_half(word[c]), load_half(word_permutations[first].data()));
            const __m128i second_words =
                _mm_shuffle_epi8(load_half(word[c] + std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(first))),
                                 load_half(word_permutations[set >> 16].data()));
            word[c] += std::size_t{2} * static_cast<unsigned>(_mm_popcnt_u32(set));
            states[c].high[side] = _mm256_blendv_epi8(next_high, next_low, due);
            states[c].low[side] = _mm256_or_si256(_mm256_andnot_si256(due, next_low), join(first_words, second_words));
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
