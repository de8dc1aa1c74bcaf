#pragma once
/// \file
/// Encodes rANS with AVX2. The kernel takes whole groups of one or two chunks and writes the same words as the scalar
/// definition.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/bit_stack/bit_stack_encode_avx2.hpp"
#include "ecq/entropy/rans/encode_entries.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq::detail::avx2 {

/// Encode table. With an alias table, `slots` holds each symbol's slots, by rank, from its start on.
struct rans_encoding {
  encode_entries entries;
  const std::uint16_t* slots = nullptr;
};

/// Table entries of eight lanes of 32 bits.
struct encode_lanes {
  __m256i frequency;
  __m256i start;
  __m256 inverse;
};

ECQ_AVX2 inline __m128i load_two(const rans_encoding& table, const std::uint8_t* codes) {
  const auto at = [&](std::size_t code) { return table.entries.words + std::size_t{2} * code; };
  const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at(codes[0])));
  return _mm_castpd_si128(
      _mm_loadh_pd(_mm_castsi128_pd(first), reinterpret_cast<const double*>(at(codes[rounds_per_group]))));
}

/// Looks up the entries of eight lanes. `codes` points to the first lane's code of the round.
ECQ_AVX2 inline encode_lanes look_up_codes(const rans_encoding& table, const std::uint8_t* codes) {
  constexpr std::size_t two = std::size_t{2} * rounds_per_group;
  const __m256 first = _mm256_castsi256_ps(join(load_two(table, codes), load_two(table, codes + 2 * two)));
  const __m256 second = _mm256_castsi256_ps(join(load_two(table, codes + two), load_two(table, codes + 3 * two)));
  const __m256i ranges = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xDD));
  return {_mm256_and_si256(ranges, _mm256_set1_epi32(0xFFFF)), _mm256_srli_epi32(ranges, 16),
          _mm256_shuffle_ps(first, second, 0x88)};
}

/// Returns the slots at four positions, each with the following slot in the high half of its 32 bits.
ECQ_AVX2 inline __m128i four_slots(const std::uint16_t* slots, const std::array<std::size_t, 4>& at) {
  const auto slot = [&](std::size_t i) {
    return static_cast<int>(load_le<std::uint32_t>(reinterpret_cast<const std::byte*>(slots + at[i])));
  };
  const __m128i first = _mm_insert_epi32(_mm_cvtsi32_si128(slot(0)), slot(1), 1);
  return _mm_insert_epi32(_mm_insert_epi32(first, slot(2), 2), slot(3), 3);
}

/// Replaces 2 * 8 positions by the slots at these positions, by loads.
ECQ_AVX2 inline void look_up_slots(const std::uint16_t* slots, const index_extractor& extract, __m256i& first,
                                   __m256i& second) {
  const __m256i both = _mm256_packus_epi32(first, second);  // by halves of registers
  const __m128i low = _mm256_castsi256_si128(both);
  const __m128i high = _mm256_extracti128_si256(both, 1);
  const __m256i low_halves = _mm256_set1_epi32(0xFFFF);
  first = _mm256_and_si256(low_halves, join(four_slots(slots, extract(_mm_cvtsi128_si64(low))),
                                            four_slots(slots, extract(_mm_cvtsi128_si64(high)))));
  second = _mm256_and_si256(low_halves, join(four_slots(slots, extract(_mm_extract_epi64(low, 1))),
                                             four_slots(slots, extract(_mm_extract_epi64(high, 1)))));
}

/// Returns the slots at eight positions, by a gather (machine_has_fast_gathers()) into a register of zeros. Otherwise
/// the gather would wait for what the register held before.
ECQ_AVX2 inline __m256i gather_slots(const std::uint16_t* slots, __m256i at) {
  const __m256i found = _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), reinterpret_cast<const int*>(slots), at,
                                                    _mm256_set1_epi32(-1), 2);
  return _mm256_and_si256(_mm256_set1_epi32(0xFFFF), found);
}

/// Writes the words of the lanes in `due`, of eight, in front of `word`, and returns the new first word. There is room
/// for one word per lane, so all eight are written; only those due are kept.
ECQ_AVX2 inline std::uint16_t* put_words(std::uint16_t* word, __m128i eight, unsigned due) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(word - 8),
                   _mm_shuffle_epi8(eight, load_half(word_compressions[due].data())));
  return word - _mm_popcnt_u32(due);
}

/// Way in which an encoder finds the slot of a rank.
enum class slots_by : unsigned char { rank, loads, gathers };

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <std::size_t Chunks, slots_by Slots>
ECQ_AVX2 inline void encode_together(const rans_encoding& table, unsigned scale_bits,
                                     rans_encode_cursor* const* cursors, std::size_t first, std::size_t last) {
  __m256i state[Chunks][4];
  std::uint16_t* word[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 4; ++part) state[c][part] = load(cursors[c]->state + 8 * part);
    word[c] = cursors[c]->word;
  }
  const __m128i scale = _mm_cvtsi32_si128(static_cast<int>(scale_bits));
  const __m128i unscale = _mm_cvtsi32_si128(static_cast<int>(32 - scale_bits));
  const index_extractor extract;
  const __m256i all_slots = _mm256_set1_epi32(1 << scale_bits);
  for (std::size_t group = last; group-- > first;) {
    for (std::size_t round = rounds_per_group; round-- > 0;) {
      ECQ_UNROLL
      for (std::size_t back = 0; back < 2; ++back) {
        const std::size_t side = 1 - back;
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          __m256i* const x = state[c] + 2 * side;
          const std::uint8_t* const codes = cursors[c]->codes.data() + group * group_symbols + 64 * side + round;
          const encode_lanes lanes[2] = {look_up_codes(table, codes), look_up_codes(table, codes + 32)};
          const __m256i low_halves = _mm256_set1_epi32(0xFFFF);
          const __m256i words = _mm256_permute4x64_epi64(
              _mm256_packus_epi32(_mm256_and_si256(x[0], low_halves), _mm256_and_si256(x[1], low_halves)), 0xD8);
          __m256i fits[2];
          unsigned due[2];
          ECQ_UNROLL
          for (std::size_t half = 0; half < 2; ++half) {
            fits[half] = _mm256_cmpgt_epi32(lanes[half].frequency, _mm256_srl_epi32(x[half], unscale));
            due[half] = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(fits[half]))) ^ 0xFFU;
          }
          word[c] = put_words(word[c], _mm256_extracti128_si256(words, 1), due[1]);
          word[c] = put_words(word[c], _mm256_castsi256_si128(words), due[0]);
          __m256i slot[2];
          ECQ_UNROLL
          for (std::size_t half = 0; half < 2; ++half) {
            const __m256i frequency = lanes[half].frequency;
            const __m256i dividend = _mm256_srlv_epi32(x[half], _mm256_andnot_si256(fits[half], _mm256_set1_epi32(16)));
            const __m256 above =
                _mm256_and_ps(_mm256_castsi256_ps(_mm256_srai_epi32(dividend, 31)), _mm256_set1_ps(0x1p32F));
            const __m256 real = _mm256_add_ps(_mm256_cvtepi32_ps(dividend), above);
            // The quotient, or one less than it.
            const __m256i quotient = _mm256_cvttps_epi32(_mm256_mul_ps(real, lanes[half].inverse));
            const __m256i rest = _mm256_sub_epi32(dividend, _mm256_mullo_epi32(quotient, frequency));
            const __m256i right = _mm256_cmpgt_epi32(frequency, rest);
            slot[half] =
                _mm256_add_epi32(lanes[half].start, _mm256_sub_epi32(rest, _mm256_andnot_si256(right, frequency)));
            x[half] = _mm256_add_epi32(_mm256_sll_epi32(quotient, scale), _mm256_andnot_si256(right, all_slots));
          }
          if constexpr (Slots == slots_by::loads) look_up_slots(table.slots, extract, slot[0], slot[1]);
          if constexpr (Slots == slots_by::gathers) {
            slot[0] = gather_slots(table.slots, slot[0]);
            slot[1] = gather_slots(table.slots, slot[1]);
          }
          ECQ_UNROLL
          for (std::size_t half = 0; half < 2; ++half) x[half] = _mm256_add_epi32(x[half], slot[half]);
        }
      }
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 4; ++part) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(cursors[c]->state + 8 * part), state[c][part]);
    }
    cursors[c]->word = word[c];
  }
}

/// Encodes the rest of the chunks, which must be whole groups.
inline void rans_encode(const rans_encoding& table, unsigned scale_bits, std::span<rans_encode_cursor> cursors) {
  const auto by = [&]<slots_by One, slots_by Two>() {
    encode_in_runs<2>(cursors,
                      [&](rans_encode_cursor* const* run, std::size_t count, std::size_t first, std::size_t last) {
                        return count == 2 ? encode_together<2, Two>(table, scale_bits, run, first, last)
                                          : encode_together<1, One>(table, scale_bits, run, first, last);
                      });
  };
  if (table.slots == nullptr) return by.template operator()<slots_by::rank, slots_by::rank>();
  return machine_has_fast_gathers() ? by.template operator()<slots_by::loads, slots_by::gathers>()
                                    : by.template operator()<slots_by::loads, slots_by::loads>();
}

}  // namespace ecq::detail::avx2

#endif
