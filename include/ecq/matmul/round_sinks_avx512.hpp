#pragma once
/// \file
/// Sinks of advance_rounds (entropy/rans/alias_groups_avx512.hpp) that turn decoded weights into BF16 values, 32 to a
/// register in the order of place_in_rounds() (matmul/fusion.hpp), and hand them to a target.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_indices_avx512.hpp"
#include "ecq/matmul/pair_values.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

// Target::rounds<Weights> is made from the number of a chunk and a target, for `together` chunks side by side from that
// chunk on, in groups of `Weights` weights. take(c, i, halves) takes weights 32 i, ..., 32 i + 31 of the group that
// chunk c is at, and end(c) ends the group. run(), end_run() and leave() are those of a sink.

/// Sink that takes codes, each of which is a symbol.
template <class Target>
struct code_rounds {
  using targets = typename Target::template rounds<group_symbols>;
  static constexpr std::size_t together = targets::together;
  static constexpr bool rounds_apart = true;
  struct group {};

  /// `halves` are the BF16 values of all codes.
  ECQ_AVX512 code_rounds(std::size_t first, const std::uint8_t (&codes)[64], const std::uint16_t* halves,
                         const Target& to)
      : target(first, to) {
    alignas(64) std::uint16_t of_numbers[64];
    for (std::size_t i = 0; i < 64; ++i) of_numbers[i] = halves[codes[i]];
    values[0] = _mm512_load_si512(of_numbers);
    values[1] = _mm512_load_si512(of_numbers + 32);
  }

  std::size_t run() const { return target.run(); }
  void begin(std::size_t, group&) const {}

  template <unsigned BucketBits>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group&) {
    target.take(c, round, look_up<BucketBits>(numbers, values[0], values[1]));
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) { target.end(c); }
  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) { target.end_run(count); }
  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const { target.leave(c); }

  targets target;
  __m512i values[2];
};

/// Sink that takes exponents of BF16, whose sign and mantissa are raw bits.
template <class Target>
struct bf16_rounds {
  using targets = typename Target::template rounds<group_symbols>;
  static constexpr std::size_t together = targets::together;
  static constexpr bool rounds_apart = false;
  struct group {
    __m512i raw[2];  ///< for each lane, the bytes of the first two rounds, and those of the last two
  };

  ECQ_AVX512 bf16_rounds(std::size_t first, const std::uint8_t (&codes)[64], rans_cursor* const* cursors,
                         const Target& to)
      : target(first, to),
        even(every(0, 2)),
        odd(every(1, 2)),
        raw_mask(_mm512_set1_epi16(static_cast<short>(0x807F))) {
    alignas(64) std::uint16_t of_numbers[64];
    for (std::size_t i = 0; i < 64; ++i) of_numbers[i] = static_cast<std::uint16_t>(unsigned{codes[i]} << 7);
    exponents[0] = _mm512_load_si512(of_numbers);
    exponents[1] = _mm512_load_si512(of_numbers + 32);
    for (std::size_t c = 0; c < together; ++c) raw[c] = cursors[first + c]->raw;
  }

  std::size_t run() const { return target.run(); }

  ECQ_AVX512 [[gnu::always_inline]] inline void begin(std::size_t c, group& of) const {
    const __m512i first = _mm512_loadu_si512(raw[c]);
    const __m512i second = _mm512_loadu_si512(raw[c] + 64);
    of.raw[0] = _mm512_permutex2var_epi16(first, even, second);
    of.raw[1] = _mm512_permutex2var_epi16(first, odd, second);
  }

  template <unsigned BucketBits>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group& of) {
    // The lowest raw bit is the sign: a byte of raw bits, rotated right by one bit, has the mantissa below the
    // exponent.
    const __m512i both = of.raw[round / 2];
    const __m512i turned = round % 2 == 0 ? _mm512_shrdi_epi16(both, both, 1) : _mm512_shrdi_epi16(both, both, 9);
    const __m512i exponent = look_up<BucketBits>(numbers, exponents[0], exponents[1]);
    target.take(c, round, _mm512_ternarylogic_epi32(exponent, turned, raw_mask, 0xF8));  // exponent | (turned & mask)
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) {
    prefetch<2>(raw[c], 2 * prefetch_distance);
    raw[c] += group_symbols;
    target.end(c);
  }
  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) { target.end_run(count); }
  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const { target.leave(c); }

  targets target;
  __m512i even, odd, raw_mask;
  __m512i exponents[2];
  const std::byte* raw[together];
};

/// Sink that takes narrow pairs of codes, with raw bits if `Raw`. Pairs need neither be packed nor brought into the
/// order of the columns. Escapes count as 0.
template <class Target, bool Raw>
struct pair_rounds {
  using targets = typename Target::template rounds<pair_group_codes>;
  static constexpr std::size_t together = targets::together;
  static constexpr bool rounds_apart = false;
  struct group {
    __m512i raw;  ///< for each lane, the raw bits of its eight codes
  };

  ECQ_AVX512 pair_rounds(std::size_t first, const pair_values& values, rans_cursor* const* cursors, const Target& to)
      : target(first, to), indices(values.nibbles, values.raw_bits) {
    // A permutation of 32 values reads five bits of an index, which may have fewer.
    alignas(64) std::uint16_t of_indices[32];
    const std::size_t last = (pair_values::most_nibbles << values.raw_bits) - 1;
    for (std::size_t i = 0; i < 32; ++i) of_indices[i] = values.halves[i & last];
    halves = _mm512_load_si512(of_indices);
    for (std::size_t c = 0; c < together; ++c) raw[c] = cursors[first + c]->raw;
  }

  std::size_t run() const { return target.run(); }

  ECQ_AVX512 [[gnu::always_inline]] inline void begin(std::size_t c, group& of) const {
    if constexpr (Raw) of.raw = indices.load_raw(raw[c]);
  }

  template <unsigned>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group& of) {
    // Without raw bits, a nibble is an index; `halves` ignores all but three of its bits.
    const __m512i index = Raw ? indices.of_round(numbers, of.raw, round) : indices.nibbles(numbers);
    target.take(c, 2 * round, _mm512_permutexvar_epi16(index, halves));
    target.take(c, 2 * round + 1, _mm512_permutexvar_epi16(_mm512_srli_epi16(index, Raw ? 8 : 4), halves));
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) {
    if constexpr (Raw) {
      prefetch<1>(raw[c], prefetch_distance);
      raw[c] += indices.group_bytes;
    }
    target.end(c);
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) { target.end_run(count); }
  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const { target.leave(c); }

  targets target;
  pair_indices indices;
  __m512i halves;
  const std::byte* raw[together];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
