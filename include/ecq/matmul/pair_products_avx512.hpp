#pragma once
/// \file
/// Dot products of narrow pairs of codes with AVX-512: codes become values and meet their activations in the registers
/// in which rANS decodes them, and are never stored.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/prefetch_avx512.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// What pairs of codes stand for: the nibbles that occur have numbers, and number and raw bits of a code together are
/// the index of its value.
struct pair_values {
  static constexpr std::size_t most_nibbles = 8;
  static constexpr unsigned most_raw_bits = 2;

  alignas(64) std::uint8_t index[2][64];  ///< of the first and the second code of each pair, raw bits 0
  alignas(64) std::uint8_t code[2][64];   ///< their symbols
  alignas(64) std::uint8_t escaped[64];   ///< bit 0: the first code is an escape; bit 1: the second one
  alignas(64) std::uint16_t halves[32];   ///< the value of each index as BF16; 0 for escapes
  const std::uint16_t* all_halves;        ///< of all codes
  unsigned raw_bits;
  bool usable = true;  ///< no more nibbles and raw bits than there is room for

  /// `pairs` are the pairs by their numbers in an alias table, `of_codes` the BF16 values of all codes.
  pair_values(const std::uint8_t (&pairs)[64], const nibble_list& list, unsigned bits, const std::uint16_t* of_codes)
      : all_halves(of_codes), raw_bits(bits) {
    const pair_lookup lookup(pairs, list);
    std::copy_n(lookup.escaped, 64, escaped);
    std::fill_n(halves, 32, std::uint16_t{0});
    std::uint8_t number_of[16];
    std::fill_n(number_of, 16, std::uint8_t{255});
    std::size_t numbers = 0;
    usable = bits <= most_raw_bits;
    for (std::size_t i = 0; i < 64 && usable; ++i) {
      for (std::size_t which = 0; which < 2; ++which) {
        const unsigned nibble = which == 0 ? pairs[i] % 16U : pairs[i] / 16U;
        code[which][i] = lookup.code[which][i];
        if (number_of[nibble] == 255) {
          usable = usable && numbers < most_nibbles;
          if (!usable) return;
          number_of[nibble] = static_cast<std::uint8_t>(numbers << bits);
          const bool escape = list.has_escape() && nibble == nibble_list::escape_value;
          for (unsigned raw = 0; raw >> bits == 0 && !escape; ++raw) {
            halves[(numbers << bits) + raw] = of_codes[(list.symbols[nibble] + raw) % 256U];
          }
          ++numbers;
        }
        index[which][i] = number_of[nibble];
      }
    }
  }
};

/// Where the raw bits of 64 codes go: nothing to know for 0 and 1 a code.
struct raw_bit_registers {
  ECQ_AVX512 explicit raw_bit_registers(unsigned raw_bits) : bits(raw_bits) {
    const raw_bit_lanes lanes(1, raw_bits, 0);
    byte = _mm512_loadu_si512(lanes.byte);
    shift = _mm512_loadu_si512(lanes.shift);
    mask = _mm512_set1_epi8(static_cast<char>((1U << raw_bits) - 1U));
  }

  std::size_t bits;
  __m512i byte, shift, mask;
};

/// Adds the raw bits of 256 codes, those at `from`, to what stands for the codes in order.
template <unsigned RawBits>
ECQ_AVX512 [[gnu::always_inline]] inline void add_raw_bits(__m512i (&to)[4], const std::byte* from,
                                                           const raw_bit_registers& lanes) {
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    if constexpr (RawBits == 1) {
      to[i] = _mm512_mask_sub_epi8(to[i], load_le<std::uint64_t>(from + 8 * i), to[i], _mm512_set1_epi8(-1));
    } else if constexpr (RawBits == any_raw_bits) {
      const __m512i read = _mm512_loadu_si512(from + 8 * lanes.bits * i);
      const __m512i spread = _mm512_multishift_epi64_epi8(lanes.shift, _mm512_permutexvar_epi8(lanes.byte, read));
      to[i] = _mm512_add_epi8(to[i], _mm512_and_si512(spread, lanes.mask));
    }
  }
}

/// The products of a chunk: one sum for each row that it has codes of.
struct product_cursor {
  const float* x = nullptr;      ///< activations of the next codes, in product_order
  const float* plain = nullptr;  ///< the same in their own order
  std::size_t groups = 0;        ///< of 256 codes, left in the row
  float* sums = nullptr;         ///< of the row
  alignas(64) float partial[16] = {};

  /// Ends a row, if one has begun.
  ECQ_AVX512 void end_row() {
    *sums++ = _mm512_reduce_add_ps(_mm512_load_ps(partial));
    _mm512_store_ps(partial, _mm512_setzero_ps());
  }
};

/// The products of 256 codes of which some are escapes: `codes` are the codes without them, and 0 + raw bits where they
/// belong. Moves `next` past them. Returns false if there are too few. Never inlined: it seldom runs.
ECQ_AVX512 [[gnu::noinline]] inline bool escaped_products(const __m512i (&codes)[4], __m512i first, __m512i second,
                                                          const std::byte*& next, const std::byte* end,
                                                          const pair_values& values, const float* x, float& sum) {
  std::byte group[pair_group_codes];
  for (int i = 0; i < 4; ++i) _mm512_storeu_si512(group + 64 * i, codes[i]);
  if (!add_escapes(first, second, group, next, end)) return false;
  sum = dot_codes(values.all_halves, group, x, pair_group_codes);
  return true;
}

/// Multiplies `groups` whole groups of pairs of `Chunks` chunks side by side. If one of them runs out of words or
/// escapes, returns false and moves no rans_cursor. Each row has `row_groups` groups; its activations begin at `x` and
/// `plain`. Reads as far as advance_pairs.
template <std::size_t Chunks, unsigned BucketBits, unsigned RawBits>
ECQ_AVX512 inline bool advance_products(const alias_lookup<BucketBits>& lookup, const pair_values& values,
                                        bool escaping, rans_cursor* const* cursors, product_cursor* const* products,
                                        std::size_t groups, std::size_t row_groups, const float* x,
                                        const float* plain) {
  const __m512i even = every(0, 2);
  const __m512i odd = every(1, 2);
  __m512i high[Chunks];
  __m512i low[Chunks];
  const std::byte* word[Chunks];
  const std::byte* end[Chunks];
  const std::byte* raw[Chunks];
  const std::byte* escape[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i first = _mm512_loadu_si512(cursors[c]->state);
    const __m512i second = _mm512_loadu_si512(cursors[c]->state + 16);
    low[c] = _mm512_permutex2var_epi16(first, even, second);
    high[c] = _mm512_permutex2var_epi16(first, odd, second);
    word[c] = cursors[c]->word;
    end[c] = cursors[c]->end;
    raw[c] = cursors[c]->raw;
    escape[c] = cursors[c]->escape;
  }
  const alias_registers<BucketBits> table(lookup);
  const __m512i index0 = _mm512_load_si512(values.index[0]);
  const __m512i index1 = _mm512_load_si512(values.index[1]);
  const __m512i escaped = _mm512_load_si512(values.escaped);
  const __m512i halves = _mm512_load_si512(values.halves);
  const __m512i low_byte = _mm512_set1_epi16(255);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  const pair_order order;
  const __m512i order0 = _mm512_loadu_si512(order.place[0]);
  const __m512i order1 = _mm512_loadu_si512(order.place[1]);
  const raw_bit_registers lanes(values.raw_bits);
  for (std::size_t group = 0; group < groups; ++group) {
    __m512i symbols[Chunks][2];
    ECQ_UNROLL
    for (int two = 0; two < 2; ++two) {
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) symbols[c][two] = table.step(high[c], low[c], word[c]);
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        const __m512i later = table.step(high[c], low[c], word[c]);
        symbols[c][two] = _mm512_ternarylogic_epi32(symbols[c][two], low_byte, _mm512_slli_epi16(later, 8), 0xEA);
      }
      bool overrun = false;
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || word[c] > end[c];
      if (overrun) return false;
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      product_cursor& to = *products[c];
      const __m512i half[2] = {_mm512_permutex2var_epi16(symbols[c][0], order0, symbols[c][1]),
                               _mm512_permutex2var_epi16(symbols[c][0], order1, symbols[c][1])};
      prefetch<RawBits == 0 ? 0 : RawBits == 1 ? 1 : 2>(raw[c], 1024);
      prefetch<2>(word[c], 512);
      float rare = 0;
      bool plainly = true;
      if (escaping) {
        const __m512i marks[2] = {_mm512_permutexvar_epi8(half[0], escaped), _mm512_permutexvar_epi8(half[1], escaped)};
        const __m512i any = _mm512_or_si512(marks[0], marks[1]);
        if (_mm512_test_epi8_mask(any, any) != 0) [[unlikely]] {
          __m512i codes[4];
          for (int i = 0; i < 2; ++i) {
            const __m512i firsts = _mm512_permutexvar_epi8(half[i], _mm512_load_si512(values.code[0]));
            const __m512i seconds = _mm512_permutexvar_epi8(half[i], _mm512_load_si512(values.code[1]));
            codes[2 * i] = _mm512_unpacklo_epi8(firsts, seconds);
            codes[2 * i + 1] = _mm512_unpackhi_epi8(firsts, seconds);
          }
          add_raw_bits<RawBits>(codes, raw[c], lanes);
          if (!escaped_products(codes, marks[0], marks[1], escape[c], cursors[c]->escape_end, values, to.plain, rare)) {
            return false;
          }
          plainly = false;
        }
      }
      __m512 sum[4];
      sum[0] = _mm512_load_ps(to.partial);
      if (plainly) [[likely]] {
        __m512i indices[4];
        ECQ_UNROLL
        for (int i = 0; i < 2; ++i) {
          const __m512i firsts = _mm512_permutexvar_epi8(half[i], index0);
          const __m512i seconds = _mm512_permutexvar_epi8(half[i], index1);
          indices[2 * i] = _mm512_unpacklo_epi8(firsts, seconds);
          indices[2 * i + 1] = _mm512_unpackhi_epi8(firsts, seconds);
        }
        add_raw_bits<RawBits>(indices, raw[c], lanes);
        sum[1] = sum[2] = sum[3] = _mm512_setzero_ps();
        ECQ_UNROLL
        for (std::size_t i = 0; i < 4; ++i) {
          // A permutation of 32 values reads five bits of an index, so the byte above it does not matter.
          const __m512i first = _mm512_permutexvar_epi16(indices[i], halves);
          const __m512i second = _mm512_permutexvar_epi16(_mm512_srli_epi16(indices[i], 8), halves);
          const float* const with = to.x + 64 * i;
          sum[0] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(first, 16)), _mm512_loadu_ps(with), sum[0]);
          sum[1] =
              _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(first, upper)), _mm512_loadu_ps(with + 16), sum[1]);
          sum[2] =
              _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(second, 16)), _mm512_loadu_ps(with + 32), sum[2]);
          sum[3] =
              _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(second, upper)), _mm512_loadu_ps(with + 48), sum[3]);
        }
        sum[0] = _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]));
      } else {
        sum[0] = _mm512_add_ps(sum[0], _mm512_maskz_mov_ps(1, _mm512_set1_ps(rare)));
      }
      _mm512_store_ps(to.partial, sum[0]);
      to.x += pair_group_codes;
      to.plain += pair_group_codes;
      if (--to.groups == 0) {
        to.end_row();
        to.groups = row_groups;
        to.x = x;
        to.plain = plain;
      }
      raw[c] += std::size_t{32} * (RawBits == any_raw_bits ? values.raw_bits : RawBits);
    }
  }
  const __m512i first_half = interleaved(0);
  const __m512i second_half = interleaved(16);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->state, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
    cursors[c]->word = word[c];
    cursors[c]->left -= static_cast<std::uint32_t>(groups * group_symbols);
    cursors[c]->raw = raw[c];
    cursors[c]->escape = escape[c];
  }
  return true;
}

/// advance_products for up to 8 chunks and the number of raw bits that `values` says; `count` cursors are given.
template <unsigned BucketBits>
inline bool multiply_chunks(const alias_lookup<BucketBits>& lookup, const pair_values& values, bool escaping,
                            rans_cursor* cursors, product_cursor* products, std::size_t count, std::size_t groups,
                            std::size_t row_groups, const float* x, const float* plain) {
  // Copies of the last chunk fill the places that are left; their sums go nowhere.
  constexpr std::size_t width = 8;
  rans_cursor copies[width];
  product_cursor nowhere[width];
  rans_cursor* all[width];
  product_cursor* to[width];
  std::vector<float> sums(count == width ? 0 : groups / row_groups + 2);
  for (std::size_t i = 0; i < width; ++i) {
    if (i >= count) {
      copies[i] = cursors[count - 1];
      nowhere[i] = products[count - 1];
      nowhere[i].sums = sums.data();
    }
    all[i] = i < count ? &cursors[i] : &copies[i];
    to[i] = i < count ? &products[i] : &nowhere[i];
  }
  const auto by = [&]<unsigned RawBits>() {
    return advance_products<width, BucketBits, RawBits>(lookup, values, escaping, all, to, groups, row_groups, x,
                                                        plain);
  };
  if (values.raw_bits == 0) return by.template operator()<0>();
  if (values.raw_bits == 1) return by.template operator()<1>();
  return by.template operator()<any_raw_bits>();
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
