#pragma once
/// \file
/// Sinks for codes on a trellis, in addition to those of matmul/weight_sinks_avx2.hpp. Streams hold indices, which
/// become Int8 codes and then FP32.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_bytes_avx2.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_groups_avx2.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/weight_sinks_avx2.hpp"

namespace ecq::detail::avx2 {

/// Factor by which sums are multiplied. A code is taken for an integer of 32 bits whose highest byte it is, so sums are
/// 2^24 times too large.
inline constexpr float unit_on_trellis = 0x1p-24F;

/// Hands run number `run` of 32 codes to `group`, each times 2^24 (unit_on_trellis), as FP32, which holds them exactly.
template <class Group>
ECQ_AVX2 [[gnu::always_inline]] inline void take_codes(Group& group, std::size_t run, __m256i codes) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m256i words[2] = {_mm256_unpacklo_epi8(zero, codes), _mm256_unpackhi_epi8(zero, codes)};
  ECQ_UNROLL
  for (std::size_t half = 0; half < 2; ++half) {
    group.take(2 * run + half, _mm256_cvtepi32_ps(_mm256_slli_epi32(words[half], 16)),
               _mm256_cvtepi32_ps(_mm256_and_si256(words[half], upper)));
  }
}

/// Sink that takes indices, each of which is a symbol.
template <class Target, unsigned BucketBits>
struct trellis_weights {
  /// `first` is the number of the first chunk.
  trellis_weights(const std::uint8_t (&symbols)[64], const trellis& walk, std::size_t first, const Target& to)
      : target(to), first_chunk(first), indices(symbols), states(walk) {}

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&numbers)[2][2]) {
    __m256i codes[2][2];
    ECQ_UNROLL
    for (std::size_t run = 0; run < 4; ++run) {
      codes[run / 2][run % 2] = indices(byte_index<BucketBits>(numbers[run / 2][run % 2]));
    }
    states.walk(c, codes);
    typename Target::group group(target, first_chunk + c);
    ECQ_UNROLL
    for (std::size_t run = 0; run < 4; ++run) take_codes(group, run, codes[run / 2][run % 2]);
    target.template advance<group_symbols>(first_chunk + c, group);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  Target target;
  std::size_t first_chunk;
  byte_lookup<BucketBits> indices;
  trellis_groups<chunks_together, false> states;
};

/// Sink that takes narrow pairs of indices.
template <class Target, unsigned BucketBits, unsigned RawBits>
struct trellis_pair_weights {
  using reader = pair_reader<BucketBits, RawBits>;

  /// `values` were made from every_index.
  trellis_pair_weights(const pair_values& values, const trellis& walk, rans_cursor* const* cursors, std::size_t first,
                       const Target& to)
      : target(to), first_chunk(first), from(values, false, cursors), states(walk) {
    for (std::size_t i = 0; i < 32; ++i) {
      table[i / 16][i % 16] = table[i / 16][i % 16 + 16] = static_cast<std::uint8_t>(values.halves[i]);
    }
  }

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&symbols)[2][2]) {
    __m256i found[2][2];
    __m256i codes[2][2][2];  // by side and half, the first and the second codes of two rounds
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const lane_raw_bits<RawBits> bits(from.raw[c] + 16 * RawBits * side);
      ECQ_UNROLL
      for (int half = 0; half < 2; ++half) {
        const __m256i both = from.pairs(byte_index<BucketBits>(symbols[side][half]));
        found[side][half] = both;
        codes[side][half][0] = look_up(reader::index(bits, both, half, 0));
        codes[side][half][1] = look_up(reader::index(bits, both, half, 1));
      }
    }
    if (from.has_escapes(found) && !add_escapes(c, found, codes)) return false;
    from.raw[c] += 32 * RawBits;
    typename Target::group group(target, first_chunk + c);
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      states.walk(c, codes[side]);
      ECQ_UNROLL
      for (std::size_t run = 0; run < 4; ++run) take_codes(group, 4 * side + run, codes[side][run / 2][run % 2]);
    }
    target.template advance<reader::group_codes>(first_chunk + c, group);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = from.escape[c]; }

  Target target;
  std::size_t first_chunk;
  reader from;
  std::uint8_t table[2][32];  ///< low bytes of the first 16 values and of the others
  trellis_groups<chunks_together, true> states;

 private:
  /// Escaped indices at the places of their codes; 0 elsewhere.
  struct escaped_indices {
    void escape(unsigned at, std::uint16_t index) {
      of_codes[byte_place_avx2(fusion::pairs, at)] = static_cast<std::uint8_t>(index);
    }

    std::uint8_t of_codes[reader::group_codes] = {};
  };

  ECQ_AVX2 [[gnu::always_inline]] inline __m256i look_up(__m256i index) const {
    const __m256i found = _mm256_shuffle_epi8(load(table[0]), index);
    if constexpr (RawBits != 2) return found;
    const __m256i upper = _mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(0x80)));
    return _mm256_or_si256(found, _mm256_shuffle_epi8(load(table[1]), upper));
  }

  /// Adds the escapes of a group to `indices`, which are 0 where there is an escape: the parities of escapes lead to
  /// the next states. Returns false if there are too few.
  ECQ_AVX2 [[gnu::always_inline]] inline bool add_escapes(std::size_t c, const __m256i (&found)[2][2],
                                                          __m256i (&indices)[2][2][2]) {
    escaped_indices escaped;
    if (!from.take_escapes(c, found, escaped)) return false;
    ECQ_UNROLL
    for (std::size_t run = 0; run < 8; ++run) {
      __m256i& some = indices[run / 4][run / 2 % 2][run % 2];
      some = _mm256_or_si256(some, load(escaped.of_codes + 32 * run));
    }
    return true;
  }
};

}  // namespace ecq::detail::avx2

#endif
