#pragma once
/// \file
/// Sinks of advance_groups (entropy/rans/rans_groups_avx2.hpp) that turn decoded weights into BF16 values, 16 to a
/// register in the order of matmul/fusion.hpp, and hand them to a target.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_bytes_avx2.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"

namespace ecq::detail::avx2 {

// A Target has a type `group` for the group that a chunk is at, made from the target and the number of the chunk.
// group.take(i, halves) takes weights 16 i, ..., 16 i + 15 in the order of half_place_avx2. group.take(i, first,
// second) takes the same weights as FP32, those with even numbers in `first`. Afterwards, group.escape(at, half) takes
// weight number `at` in the order of the columns, which has been 0 so far. target.advance<Weights>(chunk, group) ends a
// group. A group that has take_bytes(run, bytes) takes only the low bytes of the values, 32 at a time in the order of
// byte_place_avx2.

/// Whether the groups of a target take bytes.
template <class Target>
inline constexpr bool takes_bytes =
    requires(const typename Target::group& group, __m256i bytes) { group.take_bytes(std::size_t{0}, bytes); };

/// Number of chunks decoded side by side.
inline constexpr std::size_t chunks_together = 2;

/// Hands run number `run` of 32 weights to `group`, given the low and high bytes of their BF16 values.
template <class Group>
ECQ_AVX2 [[gnu::always_inline]] inline void take_halves(Group& group, std::size_t run, __m256i low, __m256i high) {
  group.take(2 * run, _mm256_unpacklo_epi8(low, high));
  group.take(2 * run + 1, _mm256_unpackhi_epi8(low, high));
}

/// Sink that takes codes, each of which is a symbol.
template <class Target, unsigned BucketBits>
struct code_weights {
  /// `first` is the number of the first chunk, `halves` are the BF16 values of all codes.
  ECQ_AVX2 code_weights(const std::uint8_t (&codes)[64], const std::uint16_t* halves, std::size_t first,
                        const Target& to)
      : code_weights(bytes_of(codes, halves, 0), bytes_of(codes, halves, 8), first, to) {}

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&numbers)[2][2]) {
    typename Target::group group(target, first_chunk + c);
    ECQ_UNROLL
    for (std::size_t run = 0; run < 4; ++run) {
      const byte_index<BucketBits> of(numbers[run / 2][run % 2]);
      if constexpr (takes_bytes<Target>) {
        group.take_bytes(run, low(of));
      } else {
        take_halves(group, run, low(of), high(of));
      }
    }
    target.template advance<group_symbols>(first_chunk + c, group);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  Target target;
  std::size_t first_chunk;
  byte_lookup<BucketBits> low, high;

 private:
  struct bytes {
    std::uint8_t of_numbers[64];
  };

  static bytes bytes_of(const std::uint8_t (&codes)[64], const std::uint16_t* halves, unsigned shift) {
    bytes made;
    for (std::size_t i = 0; i < 64; ++i) made.of_numbers[i] = static_cast<std::uint8_t>(halves[codes[i]] >> shift);
    return made;
  }

  code_weights(const bytes& of_low, const bytes& of_high, std::size_t first, const Target& to)
      : target(to), first_chunk(first), low(of_low.of_numbers), high(of_high.of_numbers) {}
};

/// Sink that takes exponents of BF16.
template <class Target, unsigned BucketBits>
struct bf16_weights {
  ECQ_AVX2 bf16_weights(const std::uint8_t (&codes)[64], rans_cursor* const* cursors, std::size_t first,
                        const Target& to)
      : target(to), first_chunk(first), exponents(codes) {
    for (std::size_t c = 0; c < chunks_together; ++c) raw[c] = cursors[c]->raw;
  }

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&symbols)[2][2]) {
    typename Target::group group(target, first_chunk + c);
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const std::byte* const from = raw[c] + 64 * side;
      take_run(group, 2 * side,
               exponents(byte_index<BucketBits>(_mm256_unpacklo_epi16(symbols[side][0], symbols[side][1]))), from);
      take_run(group, 2 * side + 1,
               exponents(byte_index<BucketBits>(_mm256_unpackhi_epi16(symbols[side][0], symbols[side][1]))), from + 16);
    }
    raw[c] += group_symbols;
    target.template advance<group_symbols>(first_chunk + c, group);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  Target target;
  std::size_t first_chunk;
  byte_lookup<BucketBits> exponents;
  const std::byte* raw[chunks_together];

 private:
  ECQ_AVX2 [[gnu::always_inline]] static inline void take_run(typename Target::group& group, std::size_t run,
                                                              __m256i exponent, const std::byte* from) {
    const __m256i low = join(load_half(from), load_half(from + 32));
    group.take(2 * run, turned(_mm256_unpacklo_epi8(low, exponent)));
    group.take(2 * run + 1, turned(_mm256_unpackhi_epi8(low, exponent)));
  }

  /// Rotates words right by one bit: the sign, which comes last, moves to the front.
  ECQ_AVX2 static __m256i turned(__m256i words) {
    return _mm256_or_si256(_mm256_srli_epi16(words, 1), _mm256_slli_epi16(words, 15));
  }
};

/// Layout of a byte that holds the indices of both codes of a pair, and marks for those that are escapes. Shifting the
/// byte `up` or `down` moves the second code's bits to the places of the first code's. Raw bits are the lowest bits of
/// an index. Its fifth bit is the top bit of a byte, where byte shuffles look for it.
template <unsigned RawBits>
struct pair_layout {
  static constexpr std::uint8_t index = RawBits == 0 ? 0x07 : RawBits == 1 ? 0x0E : 0x8C;
  static constexpr std::uint8_t escape = RawBits == 0 ? 0x08 : RawBits == 1 ? 0x01 : 0x40;
  static constexpr std::uint8_t raw = (1U << RawBits) - 1U;
  static constexpr int up = RawBits == 2 ? 2 : 0;
  static constexpr int down = RawBits == 2 ? 0 : 4;

  /// Returns the first code's part of the byte of a pair.
  static constexpr unsigned part(unsigned index_of_code, bool is_escape) {
    return (index_of_code & 15U) | (index_of_code >> 4 << 7) | (is_escape ? escape : 0U);
  }
  static constexpr std::uint8_t both(unsigned first, unsigned second) {
    return static_cast<std::uint8_t>(first | (second << down >> up));
  }
  ECQ_AVX2 static __m256i second(__m256i pairs) {
    return RawBits == 2 ? _mm256_slli_epi16(pairs, up) : _mm256_srli_epi16(pairs, down);
  }
};

/// Raw bits of the eight codes of each of 16 lanes.
template <unsigned RawBits>
struct lane_raw_bits {
  ECQ_AVX2 explicit lane_raw_bits(const std::byte* from) {
    if constexpr (RawBits == 1) {
      const __m256i eight = _mm256_cvtepu8_epi16(load_half(from));
      bits[0] = _mm256_or_si256(eight, _mm256_slli_epi16(eight, 6));
    } else if constexpr (RawBits == 2) {
      const __m256i eight = load(from);
      const __m256i four[2] = {_mm256_and_si256(eight, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(eight, 8)};
      for (std::size_t half = 0; half < 2; ++half) {
        bits[half] = _mm256_or_si256(four[half], _mm256_slli_epi16(four[half], 4));
      }
    }
  }

  /// Adds the raw bits of the first or second (`which`) codes of the first or last two rounds (`half`) of a group.
  ECQ_AVX2 [[gnu::always_inline]] inline __m256i add(__m256i index, int half, int which) const {
    if constexpr (RawBits == 0) return index;
    const __m256i raw =
        RawBits == 1 ? _mm256_srli_epi16(bits[0], 4 * half + which) : _mm256_srli_epi16(bits[half], 2 * which);
    return _mm256_or_si256(index, _mm256_and_si256(raw, _mm256_set1_epi8(pair_layout<RawBits>::raw)));
  }

  __m256i bits[2];
};

/// Reader of narrow pairs of codes, with their raw bits and escapes.
template <unsigned BucketBits, unsigned RawBits>
struct pair_reader {
  using layout = pair_layout<RawBits>;
  static constexpr std::size_t group_codes = std::size_t{2} * group_symbols;

  /// With `listed`, escapes are left out.
  pair_reader(const pair_values& of_pairs, bool listed, rans_cursor* const* cursors)
      : all_halves(of_pairs.all_halves), escaping(of_pairs.escaping && !listed), pairs(bytes_of(of_pairs).of_numbers) {
    for (std::size_t c = 0; c < chunks_together; ++c) {
      raw[c] = cursors[c]->raw;
      escape[c] = cursors[c]->escape;
      escape_end[c] = cursors[c]->escape_end;
    }
  }

  /// Returns the indices of the first or second (`which`) codes of pairs, with their raw bits.
  ECQ_AVX2 [[gnu::always_inline]] static inline __m256i index(const lane_raw_bits<RawBits>& bits, __m256i both,
                                                              int half, int which) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(layout::index));
    return bits.add(_mm256_and_si256(which == 0 ? both : layout::second(both), mask), half, which);
  }

  ECQ_AVX2 [[gnu::always_inline]] inline bool has_escapes(const __m256i (&found)[2][2]) const {
    const __m256i marks = _mm256_set1_epi8(static_cast<char>(layout::both(layout::escape, layout::escape)));
    const __m256i all =
        _mm256_or_si256(_mm256_or_si256(found[0][0], found[0][1]), _mm256_or_si256(found[1][0], found[1][1]));
    return escaping && _mm256_testz_si256(all, marks) == 0;
  }

  /// Hands the escapes of a group to `group`, one at a time: most groups have one or two. Returns false if there are
  /// too few.
  template <class Group>
  ECQ_AVX2 [[gnu::always_inline]] inline bool take_escapes(std::size_t c, const __m256i (&found)[2][2], Group& group) {
    constexpr int to_top = std::countl_zero(layout::escape);
    for (unsigned side = 0; side < 2; ++side) {
      const __m256i first = _mm256_unpacklo_epi16(found[side][0], found[side][1]);
      const __m256i second = _mm256_unpackhi_epi16(found[side][0], found[side][1]);
      const __m256i in_order[2] = {_mm256_permute2x128_si256(first, second, 0x20),
                                   _mm256_permute2x128_si256(first, second, 0x31)};
      for (unsigned part = 0; part < 2; ++part) {
        const __m256i some = in_order[part];
        std::uint32_t of[2];
        of[0] = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(some, to_top)));
        of[1] = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(layout::second(some), to_top)));
        for (std::uint32_t left = of[0] | of[1]; left != 0; left &= left - 1) {
          const auto pair = static_cast<unsigned>(std::countr_zero(left));
          for (unsigned which = 0; which < 2; ++which) {
            if ((of[which] >> pair & 1U) == 0) continue;
            if (escape[c] == escape_end[c]) return false;
            const unsigned at = 128 * side + 64 * part + 2 * pair + which;
            unsigned code = std::to_integer<unsigned>(*escape[c]++);
            if constexpr (RawBits != 0) {
              code += std::to_integer<unsigned>(raw[c][at * RawBits / 8]) >> (at * RawBits % 8) & layout::raw;
            }
            group.escape(at, all_halves[code % 256U]);
          }
        }
      }
    }
    return true;
  }

  const std::uint16_t* all_halves;
  bool escaping;
  byte_lookup<BucketBits> pairs;
  const std::byte* raw[chunks_together];
  const std::byte* escape[chunks_together];
  const std::byte* escape_end[chunks_together];

 private:
  struct bytes {
    std::uint8_t of_numbers[64];
  };

  static bytes bytes_of(const pair_values& from) {
    bytes made;
    for (std::size_t i = 0; i < 64; ++i) {
      made.of_numbers[i] = layout::both(layout::part(from.index[0][i], (from.escaped[i] & 1U) != 0),
                                        layout::part(from.index[1][i], (from.escaped[i] & 2U) != 0));
    }
    return made;
  }
};

/// Sink that takes narrow pairs of codes.
template <class Target, unsigned BucketBits, unsigned RawBits>
struct pair_weights {
  using reader = pair_reader<BucketBits, RawBits>;

  ECQ_AVX2 pair_weights(const pair_values& values, bool listed, rans_cursor* const* cursors, std::size_t first,
                        const Target& to)
      : target(to), first_chunk(first), from(values, listed, cursors) {
    for (std::size_t i = 0; i < 32; ++i) {
      for (std::size_t byte = 0; byte < 2; ++byte) {
        std::uint8_t* const of = table[i / 16][byte];
        of[i % 16] = of[i % 16 + 16] = static_cast<std::uint8_t>(values.halves[i] >> (8 * byte));
      }
    }
  }

  ECQ_AVX2 [[gnu::always_inline]] inline bool take(std::size_t c, const __m256i (&symbols)[2][2]) {
    typename Target::group group(target, first_chunk + c);
    __m256i found[2][2];
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const lane_raw_bits<RawBits> bits(from.raw[c] + 16 * RawBits * side);
      ECQ_UNROLL
      for (int half = 0; half < 2; ++half) {
        const __m256i both = from.pairs(byte_index<BucketBits>(symbols[side][half]));
        found[side][half] = both;
        const std::size_t run = 4 * side + 2 * static_cast<std::size_t>(half);
        take_values(group, run, reader::index(bits, both, half, 0));
        take_values(group, run + 1, reader::index(bits, both, half, 1));
      }
    }
    if (from.has_escapes(found) && !from.take_escapes(c, found, group)) return false;
    from.raw[c] += 32 * RawBits;
    target.template advance<reader::group_codes>(first_chunk + c, group);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = from.escape[c]; }

  Target target;
  std::size_t first_chunk;
  reader from;
  std::uint8_t table[2][2][32];  ///< low and high bytes of the first 16 values and of the others

 private:
  ECQ_AVX2 [[gnu::always_inline]] inline void take_values(typename Target::group& group, std::size_t run,
                                                          __m256i index) const {
    const __m256i low = bytes_of(index, 0);
    if constexpr (takes_bytes<Target>) {
      group.take_bytes(run, low);
    } else {
      take_halves(group, run, low, bytes_of(index, 1));
    }
  }

  /// Returns the low (`which` = 0) or high bytes of values.
  ECQ_AVX2 [[gnu::always_inline]] inline __m256i bytes_of(__m256i index, std::size_t which) const {
    const __m256i found = _mm256_shuffle_epi8(load(table[0][which]), index);
    if constexpr (RawBits != 2) return found;
    const __m256i upper = _mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(0x80)));
    return _mm256_or_si256(found, _mm256_shuffle_epi8(load(table[1][which]), upper));
  }
};

}  // namespace ecq::detail::avx2

#endif
