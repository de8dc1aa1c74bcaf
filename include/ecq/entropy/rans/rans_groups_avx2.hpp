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

/// A byte for each symbol by its number in an alias table.
template <unsigned BucketBits>
struct byte_lookup {
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  explicit byte_lookup(const std::uint8_t (&of_numbers)[64]) {
    for (std::size_t i = 0; i < buckets; ++i) bytes[i / 16][i % 16] = bytes[i / 16][i % 16 + 16] = of_numbers[i];
  }

  /// Of what alias_entries::look_up gives, byte by byte.
  ECQ_AVX2 __m256i operator()(__m256i symbols) const {
    const __m256i at = _mm256_and_si256(symbols, _mm256_set1_epi8(buckets - 1));
    const __m256i bit4 = _mm256_slli_epi16(at, 3);
    __m256i found[buckets / 32];
    ECQ_UNROLL
    for (std::size_t i = 0; i < buckets / 32; ++i) {
      found[i] = _mm256_blendv_epi8(_mm256_shuffle_epi8(load(bytes[2 * i]), at),
                                    _mm256_shuffle_epi8(load(bytes[2 * i + 1]), at), bit4);
    }
    if constexpr (buckets == 32) {
      return found[0];
    } else {
      return _mm256_blendv_epi8(found[0], found[1], _mm256_slli_epi16(at, 2));
    }
  }

  std::uint8_t bytes[buckets / 16][32];  ///< the same in both halves of a register
};

/// An alias table of 8 bytes a bucket: divider << BucketBits | alias, the symbol's own frequency, the alias's, adjust.
template <unsigned BucketBits>
struct alias_entries {
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  explicit alias_entries(const alias_lookup<BucketBits>& from) : codes(from.code) {
    for (std::size_t i = 0; i < buckets; ++i) {
      // The divider of a full bucket needs one bit too many; its alias is the symbol itself.
      const unsigned divider = from.divider[i] == 65536 / buckets ? 0 : from.divider[i];
      entries[4 * i] = static_cast<std::uint16_t>((divider << BucketBits) | from.alias[i]);
      entries[4 * i + 1] = from.frequency[i];
      entries[4 * i + 2] = from.frequency[from.alias[i]];
      entries[4 * i + 3] = from.adjust[i];
    }
  }

  ECQ_AVX2 slot_fields look_up(__m256i low, const index_extractor& extract) const {
    const __m256i bucket = _mm256_and_si256(low, _mm256_set1_epi16(buckets - 1));
    const __m128i first = _mm256_castsi256_si128(bucket);
    const __m128i second = _mm256_extracti128_si256(bucket, 1);
    const auto a = extract(_mm_cvtsi128_si64(first));
    const auto b = extract(_mm_extract_epi64(first, 1));
    const auto c = extract(_mm_cvtsi128_si64(second));
    const auto d = extract(_mm_extract_epi64(second, 1));
    const __m256i two0 = join(pair(a[0], a[1]), pair(c[0], c[1]));
    const __m256i two1 = join(pair(a[2], a[3]), pair(c[2], c[3]));
    const __m256i two2 = join(pair(b[0], b[1]), pair(d[0], d[1]));
    const __m256i two3 = join(pair(b[2], b[3]), pair(d[2], d[3]));
    const __m256i four0 = _mm256_unpacklo_epi32(two0, two1);
    const __m256i four1 = _mm256_unpacklo_epi32(two2, two3);
    const __m256i four2 = _mm256_unpackhi_epi32(two0, two1);
    const __m256i four3 = _mm256_unpackhi_epi32(two2, two3);
    const __m256i divider = _mm256_unpacklo_epi64(four0, four1);
    const __m256i own_frequency = _mm256_unpackhi_epi64(four0, four1);
    const __m256i alias_frequency = _mm256_unpacklo_epi64(four2, four3);
    const __m256i adjust = _mm256_unpackhi_epi64(four2, four3);
    const __m256i offset = _mm256_srli_epi16(low, BucketBits);
    const __m256i own = _mm256_cmpgt_epi16(_mm256_srli_epi16(divider, BucketBits), offset);
    __m256i symbol = _mm256_blendv_epi8(divider, low, own);
    __asm__("" : "+x"(symbol));  // clang would keep its operands in memory until much later
    return {_mm256_blendv_epi8(alias_frequency, own_frequency, own),
            _mm256_add_epi16(offset, _mm256_andnot_si256(own, adjust)), symbol};
  }

  /// Turns symbols from `look_up` into codes, byte by byte.
  ECQ_AVX2 __m256i code_of(__m256i symbols) const { return codes(symbols); }

 private:
  /// The fields of two entries, one after the other.
  ECQ_AVX2 __m128i pair(std::size_t first, std::size_t second) const {
    return _mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(entries + 4 * first)),
                              load_half(entries + 4 * second));
  }

  std::uint16_t entries[4 * buckets + 4];  ///< 8 bytes beyond the last are read
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
  const index_extractor extract;
  const __m256i zero = _mm256_setzero_si256();
  // Each unit is looked up before the previous one takes its words: loads that wait for their indices fill a hardware
  // queue, and nothing behind them would begin.
  slot_fields upcoming = table.look_up(states[0].low[0], extract);
  for (std::size_t group = 0; group < groups; ++group) {
    __m256i symbols[Chunks][2][2];
    ECQ_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
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
          const __m128i first_words = _mm_shuffle_epi8(load_half(word[c]), load_half(word_permutations[first].data()));
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
