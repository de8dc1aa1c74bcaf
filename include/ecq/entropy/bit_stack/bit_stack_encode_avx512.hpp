#pragma once
/// \file
/// Encodes tANS and Huffman with AVX-512 and VBMI2. The kernel takes whole groups of two chunks and writes the
/// same words as the scalar definition.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/lanes_avx512.hpp"
#include "ecq/entropy/table_lookup_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Entries of 32 codes as low and high halves, lane by lane.
struct code_halves {
  __m512i low;
  __m512i high;
};

/// Codes of a group, from the last round to the first, whose entries are looked up in memory.
template <class Lookups>
class codes_in_memory {
 public:
  ECQ_AVX512 void begin(const code_entries&, const std::uint8_t* codes) { codes_.begin(codes); }
  ECQ_AVX512 code_halves next(const code_entries& table, unsigned, unsigned) {
    const looked_up found = codes_.entries(table.entries);
    return {Lookups::low_halves(found), Lookups::high_halves(found)};
  }

 private:
  typename Lookups::codes_of_group codes_;
};

/// Codes of a group, from the last round to the first, whose table has at most 64 entries and is held in registers.
class codes_in_registers {
 public:
  ECQ_AVX512 void begin(const code_entries& table, const std::uint8_t* codes) {
    numbers_.begin(table.number_of_code, codes);
  }
  ECQ_AVX512 code_halves next(const code_entries& table, unsigned pair, unsigned later) {
    const __m512i numbers = numbers_.of_round(pair, later);
    const bool few = table.count <= 32;
    return {entries_of(table.low, numbers, few), entries_of(table.high, numbers, few)};
  }

 private:
  numbers_of_group numbers_;
};

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <class Lookups, class Codes, std::size_t Chunks, class Encoding>
ECQ_AVX512 inline void bit_stacks_encode(const Encoding& table, bit_stack_encode_cursor* const* cursors,
                                         std::size_t first, std::size_t last) {
  const __m512i even = every(0, 2);
  const __m512i odd = every(1, 2);
  const __m512i zero = _mm512_setzero_si512();
  __m512i high[Chunks];  // halves of the stacks, lane by lane
  __m512i low[Chunks];
  __m512i state[Chunks];
  std::uint16_t* word[Chunks];
  const std::uint8_t* codes[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    const __m512i front = _mm512_loadu_si512(cursors[c]->stack);
    const __m512i back = _mm512_loadu_si512(cursors[c]->stack + 16);
    low[c] = _mm512_permutex2var_epi16(front, even, back);
    high[c] = _mm512_permutex2var_epi16(front, odd, back);
    state[c] = _mm512_permutex2var_epi16(_mm512_loadu_si512(cursors[c]->state), even,
                                         _mm512_loadu_si512(cursors[c]->state + 16));
    word[c] = cursors[c]->word;
    codes[c] = cursors[c]->codes.data();
  }
  for (std::size_t group = last; group-- > first;) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) prefetch<2>(codes[c] + group * group_symbols, codes_prefetched);
    Codes left[Chunks];
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) left[c].begin(table, codes[c] + group * group_symbols);
    // Two rounds, twice. Full unrolling would be no faster and would take twice as long to compile.
    for (unsigned pair = 2; pair-- > 0;) {
      ECQ_UNROLL
      for (unsigned back = 1; back <= 2; ++back) {
        // Stages of all chunks alternate: a processor looks ahead by less than a step of one chunk.
        __m512i bits[Chunks];   // number of bits to push, of which shifts use only the low four bits
        __m512i value[Chunks];  // the bits themselves, at the top of 16
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          const code_halves entry = left[c].next(table, pair, 2 - back);
          bits[c] = entry.high;
          value[c] = entry.low;
          if constexpr (Encoding::by_state) {
            const __mmask32 fewer = _mm512_cmplt_epu16_mask(
                _mm512_or_si512(_mm512_slli_epi16(state[c], 3), _mm512_set1_epi16(15)), bits[c]);
            bits[c] = _mm512_mask_sub_epi16(bits[c], fewer, bits[c], _mm512_set1_epi16(1));
          }
        }
        if constexpr (Encoding::by_state) {
          ECQ_UNROLL
          for (std::size_t c = 0; c < Chunks; ++c) {
            const __m512i next = _mm512_add_epi16(value[c], _mm512_shrdv_epi16(state[c], zero, bits[c]));
            value[c] = _mm512_shrdv_epi16(state[c], state[c], bits[c]);
            const looked_up found = Lookups::template entries<2>(table.states, next);
            state[c] = Lookups::low_halves(found);
          }
        }
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          // The bits that the shift would lose.
          const __m512i lost = _mm512_shldv_epi16(zero, high[c], bits[c]);
          __mmask32 due = _mm512_test_epi16_mask(lost, lost);
          __mmask32 all_bits = 0;  // lanes whose code words have 16 bits
          if constexpr (!Encoding::by_state) {
            all_bits = _mm512_test_epi16_mask(bits[c], _mm512_set1_epi16(16));
            due |= all_bits;
          }
          const auto count = static_cast<unsigned>(_mm_popcnt_u32(due));
          word[c] -= count;
          _mm512_mask_storeu_epi16(word[c], _bzhi_u32(~0U, count), _mm512_maskz_compress_epi16(due, low[c]));
          const __m512i rest_low = _mm512_mask_mov_epi16(low[c], due, high[c]);
          const __m512i rest_high = _mm512_maskz_mov_epi16(~due, high[c]);
          low[c] = _mm512_shldv_epi16(rest_low, value[c], bits[c]);
          high[c] = _mm512_shldv_epi16(rest_high, rest_low, bits[c]);
          if (all_bits != 0) {
            low[c] = _mm512_mask_mov_epi16(low[c], all_bits, value[c]);
            high[c] = _mm512_mask_mov_epi16(high[c], all_bits, rest_low);
          }
        }
      }
    }
  }
  const __m512i first_half = interleaved(0);
  const __m512i second_half = interleaved(16);
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) {
    _mm512_storeu_si512(cursors[c]->stack, _mm512_permutex2var_epi16(low[c], first_half, high[c]));
    _mm512_storeu_si512(cursors[c]->stack + 16, _mm512_permutex2var_epi16(low[c], second_half, high[c]));
    _mm512_storeu_si512(cursors[c]->state, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(state[c])));
    _mm512_storeu_si512(cursors[c]->state + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(state[c], 1)));
    cursors[c]->word = word[c];
  }
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
