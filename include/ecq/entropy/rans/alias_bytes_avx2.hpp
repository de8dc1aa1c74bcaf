#pragma once
/// \file
/// Alias tables of rANS as bytes, which AVX2 shuffles look up for all lanes of a chunk at once. With 32 buckets, chunks
/// decode faster than with one indexed load per lane.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"

namespace ecq::detail::avx2 {

/// Numbers of buckets or symbols, bytes below 2^BucketBits, as an index for each table of 16 bytes. The index is
/// negative if the number belongs to a table before it, so that a shuffle finds 0 there.
template <unsigned BucketBits>
struct byte_index {
  static constexpr std::size_t tables = (std::size_t{1} << BucketBits) / 16;

  ECQ_AVX2 explicit byte_index(__m256i numbers) {
    ECQ_UNROLL
    for (std::size_t i = 0; i < tables; ++i) {
      at[i] = i == 0 ? numbers : _mm256_sub_epi8(numbers, _mm256_set1_epi8(static_cast<char>(16 * i)));
    }
  }

  __m256i at[tables];
};

/// A byte for each number of a bucket or a symbol of an alias table. Every table of 16 bytes but the first holds the
/// differences, bit by bit, of its bytes from those of the table before. A number finds something in its own table and
/// in all before it, and the differences cancel out. So an index takes one operation per table, and none for the first
/// table.
template <unsigned BucketBits>
struct byte_lookup {
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  byte_lookup() = default;
  explicit byte_lookup(const std::uint8_t (&of_numbers)[64]) {
    for (std::size_t i = 0; i < buckets; ++i) set(i, of_numbers[i]);
  }

  void set(std::size_t number, unsigned byte) {
    std::uint8_t change = static_cast<std::uint8_t>(byte);
    for (std::size_t i = 0; i <= number / 16; ++i) change ^= differences[i][number % 16];
    // The difference in the next table changes too, because it is relative to the byte that has changed.
    for (std::size_t i = number / 16; i < (std::min)(number / 16 + 2, buckets / 16); ++i) {
      differences[i][number % 16] = differences[i][number % 16 + 16] ^= change;
    }
  }

  ECQ_AVX2 [[gnu::always_inline]] inline __m256i operator()(const byte_index<BucketBits>& index) const {
    __m256i found = _mm256_shuffle_epi8(load(differences[0]), index.at[0]);
    ECQ_UNROLL
    for (std::size_t i = 1; i < buckets / 16; ++i) {
      found = _mm256_xor_si256(found, _mm256_shuffle_epi8(load(differences[i]), index.at[i]));
    }
    return found;
  }

  std::uint8_t differences[buckets / 16][32] = {};  ///< the same in both halves of a register
};

/// An alias table that byte shuffles look up, for all 32 lanes of a chunk at once.
template <unsigned BucketBits>
struct alias_bytes {
  static constexpr bool wide = true;
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  explicit alias_bytes(const alias_lookup<BucketBits>& from) : codes(from.code) {
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
    __m256i numbers[2];
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const __m256i least = _mm256_min_epu16(low[side], limit[side]);
      const __m256i is_alias = _mm256_cmpeq_epi16(least, limit[side]);
      found.rank[side] =
          _mm256_add_epi16(_mm256_srli_epi16(low[side], BucketBits), _mm256_and_si256(adjusts[side], is_alias));
      numbers[side] = _mm256_and_si256(least, mask);
    }
    found.symbol = _mm256_packus_epi16(numbers[0], numbers[1]);
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
  word_lookup<byte_lookup<BucketBits>> bucket, adjust, frequency;
  byte_lookup<BucketBits> codes;
};

}  // namespace ecq::detail::avx2

#endif
