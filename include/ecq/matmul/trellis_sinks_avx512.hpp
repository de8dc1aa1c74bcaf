#pragma once
/// \file
/// Sinks for codes on a trellis, in addition to those of matmul/round_sinks_avx512.hpp. Streams hold indices. An index
/// and its quantiser together select the BF16 value of an Int8 code.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_lanes_avx512.hpp"
#include "ecq/entropy/trellis_walk_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/weight_sinks_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns an Int8 code as BF16, which holds it exactly.
inline std::uint16_t half_of_code(std::uint8_t code) {
  const auto value = static_cast<float>(code < 128 ? code : code - 256);
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

/// Sink of advance_rounds for indices, each of which is a symbol. A round has one index of each lane, so lanes advance
/// one step at a time.
template <class Target, unsigned BucketBits>
struct trellis_rounds {
  using targets = typename Target::template rounds<group_symbols>;
  static constexpr std::size_t together = targets::together;
  static constexpr bool rounds_apart = true;
  struct group {};

  /// Never inlined: registers are scarce where it is called.
  ECQ_AVX512 [[gnu::noinline]] trellis_rounds(std::size_t first, const std::uint8_t (&indices)[64], const trellis& walk,
                                              const Target& to)
      : target(first, to), period((std::size_t{1} << walk.period_bits) / group_symbols), left(period) {
    alignas(64) std::uint16_t of_numbers[3][64];
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint8_t index = indices[i];
      for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
        of_numbers[quantizer][i] = half_of_code(trellis::code(quantizer, index));
      }
      of_numbers[2][i] = lane_of(walk.next(0, index % 2U));
    }
    alignas(64) std::uint16_t of_states[32];
    for (unsigned state = 0; state < 32; ++state) of_states[state] = lane_of(walk.next(state % walk.states(), 0));
    for (std::size_t half = 0; half < 2; ++half) {
      values[0][half] = _mm512_load_si512(of_numbers[0] + 32 * half);
      values[1][half] = _mm512_load_si512(of_numbers[1] + 32 * half);
      from_index[half] = _mm512_load_si512(of_numbers[2] + 32 * half);
    }
    from_state = _mm512_load_si512(of_states);
    return_to_start();
  }

  std::size_t run() const { return (std::min)(target.run(), left); }
  void begin(std::size_t, group&) const {}

  template <unsigned>
  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t round, __m512i numbers, group&) {
    target.take(c, round, value(numbers, lanes[c]));
    lanes[c] = _mm512_xor_si512(_mm512_permutexvar_epi16(lanes[c], from_state),
                                look_up<BucketBits>(numbers, from_index[0], from_index[1]));
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c, group&) { target.end(c); }

  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) {
    target.end_run(count);
    left -= count;
    if (left == 0) return_to_start();
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const { target.leave(c); }

  targets target;
  std::size_t period;     ///< groups between two returns to state 0
  std::size_t left;       ///< groups left until the next return
  __m512i values[2][2];   ///< values by numbers of the alias table, for each quantiser
  __m512i from_index[2];  ///< lanes to which an index leads from state 0
  __m512i from_state;     ///< lanes to which a state leads by an even index
  __m512i lanes[together];

 private:
  /// Returns the lane of a state. Its five low bits are the state; bit 5 repeats the quantiser, where it serves as bit
  /// 5 of an index of two tables.
  static std::uint16_t lane_of(unsigned state) {
    return static_cast<std::uint16_t>(state | trellis::quantizer(state) << 5);
  }

  ECQ_AVX512 void return_to_start() {
    left = period;
    for (__m512i& of_chunk : lanes) of_chunk = _mm512_setzero_si512();
  }

  ECQ_AVX512 [[gnu::always_inline]] inline __m512i value(__m512i numbers, __m512i of_lanes) const {
    if constexpr (BucketBits == 5) {
      const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi16(31), numbers, of_lanes, 0xCA);
      return _mm512_permutex2var_epi16(values[0][0], both, values[1][0]);
    } else {
      const __mmask32 second = _mm512_test_epi16_mask(of_lanes, _mm512_set1_epi16(1));
      return _mm512_mask_mov_epi16(look_up<BucketBits>(numbers, values[0][0], values[0][1]), second,
                                   look_up<BucketBits>(numbers, values[1][0], values[1][1]));
    }
  }
};

/// State of a chunk of pairs between groups: its lanes, 16 in each half, and the number of groups left before they
/// return to state 0.
struct trellis_lanes_of_chunk {
  /// Begins a group. Lanes return to state 0 where a period of `period` groups begins.
  ECQ_AVX512 [[gnu::always_inline]] inline void begin_group(std::size_t period) {
    if (left == 0) {
      halves[0] = trellis_lanes::states();
      halves[1] = trellis_lanes::states();
      left = period;
    }
    --left;
  }

  trellis_lanes::states halves[2];  ///< state 0 if all bits are 0
  std::size_t left = 0;
};

/// Sink that takes narrow pairs of indices. A register has four indices of each of 16 lanes.
template <class Target>
struct trellis_pair_weights {
  static constexpr bool rolls = true;
  static constexpr std::size_t together = Target::together;

  /// `indices` were made from every_index.
  ECQ_AVX512 trellis_pair_weights(const pair_values& indices, const trellis& walk, rans_cursor* const* cursors,
                                  const Target& to)
      : target(to),
        from(indices, cursors),
        steps(walk),
        period((std::size_t{1} << walk.period_bits) / pair_group_codes) {
    alignas(64) std::uint16_t halves[2][32];
    alignas(64) std::uint8_t parities[64];
    for (std::size_t i = 0; i < 32; ++i) {
      const auto index = static_cast<std::uint8_t>(indices.halves[i]);
      const bool escape = i >> indices.raw_bits == indices.escape_index >> indices.raw_bits;
      halves[0][i] = escape ? std::uint16_t{0} : half_of_code(trellis::code(0, index));
      halves[1][i] = escape ? std::uint16_t{0} : half_of_code(trellis::code(1, index));
      parities[i] = parities[32 + i] = index % 2U;
    }
    values[0] = _mm512_load_si512(halves[0]);
    values[1] = _mm512_load_si512(halves[1]);
    odd = _mm512_load_si512(parities);
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    __m512i pairs[2];
    __m512i places[4];
    from.read(c, packed, pairs, places);
    __m512i parities[4];
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) parities[i] = _mm512_permutexvar_epi8(places[i], odd);
    escaped_indices escapes;
    bool any = false;
    if (from.escaping) {
      const pair_marks marks(pairs, from.escaped);
      any = marks.any();
      if (any && !read_escapes(marks, c, places, parities, escapes)) return false;
    }
    typename Target::group group(target, c);
    chunks[c].begin_group(period);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      trellis_lanes::states& lanes = chunks[c].halves[i % 2];
      const __mmask64 second =
          steps.highest ? steps.step<true>(lanes, parities[i]) : steps.step<false>(lanes, parities[i]);
      const __m512i both = _mm512_mask_add_epi8(places[i], second, places[i], _mm512_set1_epi8(32));
      group.take(2 * i, _mm512_permutex2var_epi16(values[0], both, values[1]));
      group.take(2 * i + 1, _mm512_permutex2var_epi16(values[0], _mm512_srli_epi16(both, 8), values[1]));
      escapes.second[i] = second;
    }
    if (any) take_escapes(escapes, group);
    from.advance(c);
    target.template advance<pair_group_codes>(c, group);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = from.escape[c]; }

  Target target;
  pair_reader from;
  trellis_lanes steps;
  std::size_t period;  ///< groups between two returns to state 0
  __m512i values[2];   ///< values by places of indices, for each quantiser; 0 for escapes
  __m512i odd;         ///< 1 where an index is odd
  trellis_lanes_of_chunk chunks[weight_chunks];

 private:
  /// The escapes among codes 64 i, ..., 64 i + 63: their places, their indices, and which of all these codes belong to
  /// the second quantiser.
  struct escaped_indices {
    __mmask64 which[4];
    __mmask64 second[4];
    __m512i index[4];
  };

  /// Reads the escapes of a group. Their parities replace those in `parities`, which lead to the next states. Returns
  /// false if there are too few escapes.
  ECQ_AVX512 [[gnu::always_inline]] inline bool read_escapes(const pair_marks& marks, std::size_t c,
                                                             const __m512i (&places)[4], __m512i (&parities)[4],
                                                             escaped_indices& escapes) {
    ECQ_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const __mmask64 which = marks.codes(i);
      const auto taken = std::popcount(which);
      if (taken > from.escape_end[c] - from.escape[c]) return false;
      const __m512i high = _mm512_maskz_expand_epi8(which, _mm512_loadu_si512(from.escape[c]));
      from.escape[c] += taken;
      const __m512i index = _mm512_add_epi8(high, _mm512_and_si512(places[i], from.raw_bits.mask));
      parities[i] = _mm512_mask_mov_epi8(parities[i], which, index);
      escapes.which[i] = which;
      escapes.index[i] = index;
    }
    return true;
  }

  template <class Group>
  ECQ_AVX512 [[gnu::always_inline]] static inline void take_escapes(const escaped_indices& escapes, Group& group) {
    ECQ_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      if (escapes.which[i] == 0) continue;
      std::uint8_t codes[64];
      _mm512_storeu_si512(codes, codes_of_indices(escapes.index[i], escapes.second[i]));
      for (std::uint64_t left = escapes.which[i]; left != 0; left &= left - 1) {
        const auto at = static_cast<unsigned>(std::countr_zero(left));
        group.escape(64 * i + at, half_of_code(codes[at]));
      }
    }
  }
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
