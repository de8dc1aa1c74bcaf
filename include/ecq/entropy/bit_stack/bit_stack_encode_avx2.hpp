#pragma once
/// \file
/// Encodes tANS and Huffman with AVX2: stacks and states stay in memory, and eight lanes fill a register. The kernel
/// takes whole groups of one or two chunks and writes the same words as the scalar definition.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_decode_avx2.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"

namespace ecq::detail::avx2 {

/// Byte permutations, one for each subset of eight lanes, that bring the subset's words, in order, to the end of a
/// register.
inline constexpr auto word_compressions = [] {
  std::array<std::array<std::uint8_t, 16>, 256> all{};
  for (std::size_t set = 0; set < 256; ++set) {
    std::size_t to = 8;
    for (std::uint8_t lane = 8; lane-- > 0;) {
      if (((set >> lane) & 1U) == 0) continue;
      --to;
      all[set][2 * to] = static_cast<std::uint8_t>(2 * lane);
      all[set][2 * to + 1] = static_cast<std::uint8_t>(2 * lane + 1);
    }
  }
  return all;
}();

/// Encodes one step of eight lanes. `codes` points to the first lane's code of the round.
template <class Encoding>
ECQ_AVX2 inline void push_codes(const Encoding& table, const std::uint8_t* codes, std::uint32_t* stack,
                                std::uint32_t* state, std::uint16_t*& word) {
  const __m256i zero = _mm256_setzero_si256();
  constexpr std::size_t next = rounds_per_group;
  index_pairs symbols;
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    symbols.two[i] = codes[2 * next * i] | std::uint64_t{codes[2 * next * i + next]} << 32;
  }
  const __m256i entry = look_up_dwords<4>(table.entries, symbols);
  __m256i bits;
  __m256i value;
  if constexpr (Encoding::by_state) {
    const __m256i x = load(state);
    const __m256i most = _mm256_and_si256(_mm256_srli_epi32(entry, 16), _mm256_set1_epi32(15));
    const __m256i limit = _mm256_slli_epi32(_mm256_srli_epi32(entry, 20), 1);
    bits = _mm256_add_epi32(most, _mm256_cmpgt_epi32(limit, x));
    value = _mm256_andnot_si256(_mm256_sllv_epi32(_mm256_set1_epi32(-1), bits), x);
    const __m256i start = _mm256_srai_epi32(_mm256_slli_epi32(entry, 16), 16);
    std::uint32_t indices[8];
    store(indices, _mm256_add_epi32(start, _mm256_srlv_epi32(x, bits)));
    store(state, _mm256_and_si256(look_up_dwords<2>(table.states, load_pairs(indices)), _mm256_set1_epi32(0xFFFF)));
  } else {
    bits = _mm256_srli_epi32(entry, 16);
    const __m256i highest = _mm256_and_si256(entry, _mm256_set1_epi32(0xFFFF));
    value = _mm256_srlv_epi32(highest, _mm256_sub_epi32(_mm256_set1_epi32(16), bits));
  }
  const __m256i stacks = load(stack);
  const __m256i fits =
      _mm256_cmpeq_epi32(_mm256_srlv_epi32(stacks, _mm256_sub_epi32(_mm256_set1_epi32(32), bits)), zero);
  const unsigned due = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(fits))) ^ 0xFFU;
  const __m256i low = _mm256_and_si256(stacks, _mm256_set1_epi32(0xFFFF));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  // There is room for one word per lane, so all eight words are written; only those due are kept.
  const __m128i words = _mm_shuffle_epi8(
      _mm256_castsi256_si128(packed), _mm_loadu_si128(reinterpret_cast<const __m128i*>(word_compressions[due].data())));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(word - 8), words);
  word -= _mm_popcnt_u32(due);
  const __m256i gone = _mm256_andnot_si256(fits, _mm256_set1_epi32(16));
  store(stack, _mm256_or_si256(_mm256_sllv_epi32(_mm256_srlv_epi32(stacks, gone), bits), value));
}

/// Encodes groups `last` - 1 down to `first` of each chunk.
template <std::size_t Chunks, class Encoding>
ECQ_AVX2 inline void bit_stacks_encode(const Encoding& table, bit_stack_encode_cursor* const* cursors,
                                       std::size_t first, std::size_t last) {
  bit_stack_encode_cursor at[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) at[c] = *cursors[c];
  for (std::size_t group = last; group-- > first;) {
    for (std::size_t round = rounds_per_group; round-- > 0;) {
      ECQ_UNROLL
      for (std::size_t back = 0; back < 4; ++back) {
        const std::size_t part = 3 - back;
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) {
          const std::uint8_t* const codes = at[c].codes.data() + group * group_symbols + 32 * part + round;
          push_codes(table, codes, at[c].stack + 8 * part, at[c].state + 8 * part, at[c].word);
        }
      }
    }
  }
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) *cursors[c] = at[c];
}

}  // namespace ecq::detail::avx2

#endif
