#pragma once
/// \file
/// rANS for AVX2: alias tables as byte permutations of 16 entries each, words expanded by a table of permutations,
/// several chunks side by side.

#include "ecq/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/cpu/alias_lookup.hpp"
#include "ecq/entropy/rans_cursor.hpp"

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

/// A table of 16-bit entries cut into low and high bytes of 16 entries each, both halves of a register alike.
template <std::size_t Parts>
struct permuted_table {
  alignas(32) std::uint8_t low[Parts][32];
  alignas(32) std::uint8_t high[Parts][32];

  template <class Entry>
  explicit permuted_table(const Entry* entries) {
    for (std::size_t i = 0; i < 32 * Parts; ++i) {
      const std::uint16_t entry = entries[i / 32 * 16 + i % 16];
      low[i / 32][i % 32] = static_cast<std::uint8_t>(entry & 0xFFU);
      high[i / 32][i % 32] = static_cast<std::uint8_t>(entry >> 8);
    }
  }
};

ECQ_AVX2 inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

/// Entry `index` (16-bit lanes, below 16 * Parts) as bytes to permute by: those of another part have bit 7 set, which
/// gives zero.
template <std::size_t Parts>
struct permuted_index {
  __m256i low[Parts];   ///< index in the low bytes, zero wanted in the high ones
  __m256i high[Parts];  ///< the other way round

  ECQ_AVX2 explicit permuted_index(__m256i index) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < Parts; ++part) {
      const __m256i own = _mm256_xor_si256(index, _mm256_set1_epi16(static_cast<std::int16_t>(16 * part)));
      low[part] = _mm256_add_epi16(own, _mm256_set1_epi16(static_cast<std::int16_t>(0x8070)));
      high[part] = _mm256_or_si256(_mm256_slli_epi16(low[part], 8), _mm256_set1_epi16(0x0080));
    }
  }
};

template <std::size_t Parts>
ECQ_AVX2 inline __m256i look_up_low(const permuted_table<Parts>& table, const permuted_index<Parts>& index) {
  __m256i found = _mm256_shuffle_epi8(load(table.low[0]), index.low[0]);
  ECQ_UNROLL
  for (std::size_t part = 1; part < Parts; ++part) {
    found = _mm256_or_si256(found, _mm256_shuffle_epi8(load(table.low[part]), index.low[part]));
  }
  return found;
}

template <std::size_t Parts>
ECQ_AVX2 inline __m256i look_up(const permuted_table<Parts>& table, const permuted_index<Parts>& index) {
  __m256i found = look_up_low(table, index);
  ECQ_UNROLL
  for (std::size_t part = 0; part < Parts; ++part) {
    found = _mm256_or_si256(found, _mm256_shuffle_epi8(load(table.high[part]), index.high[part]));
  }
  return found;
}

template <unsigned BucketBits>
struct alias_tables {
  static constexpr std::size_t parts = (std::size_t{1} << BucketBits) / 16;

  explicit alias_tables(const alias_lookup<BucketBits>& from)
      : divider(from.divider), alias(from.alias), adjust(from.adjust), frequency(from.frequency), code(from.code) {}

  permuted_table<parts> divider;
  permuted_table<parts> alias;
  permuted_table<parts> adjust;
  permuted_table<parts> frequency;
  permuted_table<parts> code;
};

/// Decodes `groups` whole groups of `Chunks` chunks side by side. False, and no cursor has moved, if one of them runs
/// out of words. At most 128 bytes beyond the end of a chunk's words are read.
template <std::size_t Chunks, unsigned BucketBits>
ECQ_AVX2 inline bool advance_together(const alias_tables<BucketBits>& table, rans_cursor* const* cursors,
                                      std::size_t groups) {
  constexpr std::size_t parts = alias_tables<BucketBits>::parts;
  std::uint16_t halves[Chunks][2][lane_count];
  __m256i low[Chunks][2];  // of lanes 0..15 and 16..31
  __m256i high[Chunks][2];
  const std::byte* word[Chunks];
  std::uint8_t* out[Chunks];
  for (std::size_t c = 0; c < Chunks; ++c) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      halves[c][0][lane] = static_cast<std::uint16_t>(cursors[c]->state[lane] & 0xFFFFU);
      halves[c][1][lane] = static_cast<std::uint16_t>(cursors[c]->state[lane] >> 16);
    }
    for (std::size_t side = 0; side < 2; ++side) {
      low[c][side] = load(halves[c][0] + 16 * side);
      high[c][side] = load(halves[c][1] + 16 * side);
    }
    word[c] = cursors[c]->word;
    out[c] = cursors[c]->out;
  }
  const __m256i bucket_mask = _mm256_set1_epi16((1 << BucketBits) - 1);
  const __m256i zero = _mm256_setzero_si256();
  for (std::size_t group = 0; group < groups; ++group) {
    __m256i codes[Chunks][2][2];  // of two rounds each: the later one's in the high bytes
    ECQ_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
      ECQ_UNROLL
      for (int later = 0; later < 2; ++later) {
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          ECQ_UNROLL
          for (std::size_t side = 0; side < 2; ++side) {
            const __m256i bucket = _mm256_and_si256(low[c][side], bucket_mask);
            const __m256i offset = _mm256_srli_epi16(low[c][side], BucketBits);
            const permuted_index<parts> at(bucket);
            const __m256i divider = look_up(table.divider, at);
            const __m256i other = _mm256_cmpeq_epi16(_mm256_max_epu16(offset, divider), offset);
            const __m256i symbol = _mm256_blendv_epi8(bucket, look_up_low(table.alias, at), other);
            const __m256i rank = _mm256_add_epi16(offset, _mm256_and_si256(other, look_up(table.adjust, at)));
            const permuted_index<parts> by(symbol);
            const __m256i frequency = look_up(table.frequency, by);
            const __m256i code = look_up_low(table.code, by);
            // frequency * high + rank, in halves.
            const __m256i next_low = _mm256_add_epi16(_mm256_mullo_epi16(frequency, high[c][side]), rank);
            const __m256i no_carry = _mm256_cmpeq_epi16(_mm256_max_epu16(next_low, rank), next_low);
            const __m256i next_high = _mm256_add_epi16(
                _mm256_sub_epi16(_mm256_mulhi_epu16(frequency, high[c][side]), _mm256_set1_epi16(-1)), no_carry);
            const __m256i due = _mm256_cmpeq_epi16(next_high, zero);
            const auto set = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_packs_epi16(due, zero)));
            const unsigned first = set & 0xFFU;
            const unsigned second = (set >> 16) & 0xFFU;
            const __m128i first_words =
                _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(word[c])),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(word_permutations[first].data())));
            word[c] += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(first));
            const __m128i second_words =
                _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(word[c])),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(word_permutations[second].data())));
            word[c] += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(second));
            const __m256i words = _mm256_inserti128_si256(_mm256_castsi128_si256(first_words), second_words, 1);
            high[c][side] = _mm256_or_si256(next_high, _mm256_and_si256(next_low, due));
            low[c][side] = _mm256_or_si256(_mm256_andnot_si256(due, next_low), words);
            codes[c][side][pair] =
                later == 0 ? code : _mm256_or_si256(codes[c][side][pair], _mm256_slli_epi16(code, 8));
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
      ECQ_UNROLL
      for (std::size_t side = 0; side < 2; ++side) {
        const __m256i first = _mm256_unpacklo_epi16(codes[c][side][0], codes[c][side][1]);
        const __m256i second = _mm256_unpackhi_epi16(codes[c][side][0], codes[c][side][1]);
        auto* const to = reinterpret_cast<__m256i*>(out[c] + 64 * side);
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(first, second, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(first, second, 0x31));
      }
      out[c] += group_symbols;
    }
  }
  for (std::size_t c = 0; c < Chunks; ++c) {
    for (std::size_t side = 0; side < 2; ++side) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves[c][0] + 16 * side), low[c][side]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves[c][1] + 16 * side), high[c][side]);
    }
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      cursors[c]->state[lane] = halves[c][0][lane] | (std::uint32_t{halves[c][1][lane]} << 16);
    }
    cursors[c]->word = word[c];
    cursors[c]->out = out[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
  }
  return true;
}

/// As above for 1 or 2 chunks.
template <unsigned BucketBits>
inline bool rans_advance(const alias_tables<BucketBits>& table, rans_cursor* const* cursors, std::size_t count,
                         std::size_t groups) {
  return count == 2 ? advance_together<2>(table, cursors, groups) : advance_together<1>(table, cursors, groups);
}

}  // namespace ecq::detail::avx2

#endif
