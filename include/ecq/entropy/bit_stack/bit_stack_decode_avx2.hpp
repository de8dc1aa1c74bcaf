#pragma once
/// \file
/// Decodes tANS and Huffman with AVX2. Stacks and states stay in memory, eight lanes fill a register, plain loads fetch
/// entries, a table of permutations expands words, and several chunks run side by side to hide latency.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"

namespace ecq::detail::avx2 {

inline int load_int(const std::byte* from) { return static_cast<int>(load_le<std::uint32_t>(from)); }

ECQ_AVX2 inline void store(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

/// Eight 32-bit indices in general-purpose registers, two in each.
struct index_pairs {
  std::uint64_t two[4];
};
inline index_pairs load_pairs(const std::uint32_t* indices) {
  const auto* const from = reinterpret_cast<const std::byte*>(indices);
  return {{load_le<std::uint64_t>(from), load_le<std::uint64_t>(from + 8), load_le<std::uint64_t>(from + 16),
           load_le<std::uint64_t>(from + 24)}};
}

/// Returns the 32 bits at table + Stride * index for each index. Plain loads are faster than a gather on machines whose
/// gathers are microcode.
template <std::size_t Stride>
ECQ_AVX2 inline __m256i look_up_dwords(const void* table, const index_pairs& indices) {
  const auto* const from = static_cast<const std::byte*>(table);
  __m128i pairs[4];
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t two = indices.two[i];
    __asm__("" : "+r"(two));  // keeps clang from making it a gather
    pairs[i] = _mm_insert_epi32(_mm_cvtsi32_si128(load_int(from + (two & 0xFFFFFFFFU) * Stride)),
                                load_int(from + (two >> 32) * Stride), 1);
  }
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi64(pairs[0], pairs[1])),
                                 _mm_unpacklo_epi64(pairs[2], pairs[3]), 1);
}

/// Finds the code words of `lanes` in the cascade and pops them from the lanes' stacks. The entries then hold the
/// decoded bytes and 0 bits left to take.
[[gnu::noinline]] ECQ_AVX2 inline void take_longer(const huffman_lookup& table, unsigned lanes, std::uint32_t* stack,
                                                   std::uint32_t* entries) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const std::uint32_t lane = _tzcnt_u32(lanes);
    const std::uint32_t entry = table.find_longer(stack[lane]);
    stack[lane] >>= entry & 0xFFU;
    entries[lane] = (entry & 0xFF00U) << 16;
  }
}

/// Decodes one step of eight lanes: advances their stacks and states, and returns their codes in the high bytes.
template <class Lookup>
ECQ_AVX2 inline __m256i step(const Lookup& table, std::uint32_t* stack, std::uint32_t* state, const std::byte*& word) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i stacks = load(stack);
  __m256i entry;
  if constexpr (!Lookup::by_state) {
    std::uint32_t index[8];
    store(index, _mm256_and_si256(stacks, _mm256_set1_epi32(static_cast<int>(table.index_mask))));
    // In the layout of tANS entries; nothing reads the base.
    entry = _mm256_slli_epi32(look_up_dwords<2>(table.entries, load_pairs(index)), 16);
    const __m256i longer = _mm256_cmpeq_epi32(_mm256_and_si256(entry, _mm256_set1_epi32(0xFF0000)), zero);
    if (const auto lanes = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(longer))); lanes != 0) {
      std::uint32_t entries[8];
      store(entries, entry);
      take_longer(table, lanes, stack, entries);
      stacks = load(stack);
      entry = load(entries);
    }
  } else {
    entry = look_up_dwords<4>(table.entries, load_pairs(state));
  }
  const __m256i bits = _mm256_and_si256(_mm256_srli_epi32(entry, 16), _mm256_set1_epi32(0xFF));
  if constexpr (Lookup::by_state) {
    const __m256i kept = _mm256_sllv_epi32(_mm256_set1_epi32(-1), bits);
    const __m256i base = _mm256_and_si256(entry, _mm256_set1_epi32(0xFFFF));
    store(state, _mm256_or_si256(base, _mm256_andnot_si256(kept, stacks)));
  }
  const __m256i rest = _mm256_srlv_epi32(stacks, bits);
  const __m256i due = _mm256_cmpeq_epi32(_mm256_srli_epi32(rest, 16), zero);
  const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(due)));
  const __m256i words = _mm256_cvtepu16_epi32(
      _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(word)),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(word_permutations[set].data()))));
  word += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(set));
  const __m256i room = _mm256_and_si256(due, _mm256_set1_epi32(16));
  store(stack, _mm256_or_si256(_mm256_sllv_epi32(rest, room), words));
  return entry;
}

/// Decodes `groups` whole groups of 1 .. 4 chunks side by side. If one of them runs out of words, returns false and
/// leaves all cursors as they were. Reads at most 128 bytes beyond the end of a chunk's words.
template <std::size_t Chunks, class Lookup>
ECQ_AVX2 inline bool bit_stacks_advance(const Lookup& table, bit_stack_cursor* const* cursors, std::size_t groups) {
  bit_stack_cursor at[Chunks];
  ECQ_UNROLL
  for (std::size_t c = 0; c < Chunks; ++c) at[c] = *cursors[c];
  const __m256i code_mask = _mm256_set1_epi32(static_cast<int>(0xFF000000U));
  for (std::size_t group = 0; group < groups; ++group) {
    __m256i codes[Chunks][4];
    ECQ_UNROLL
    for (int round = 0; round < 4; ++round) {
      ECQ_UNROLL
      for (std::size_t c = 0; c < Chunks; ++c) {
        ECQ_UNROLL
        for (std::size_t part = 0; part < 4; ++part) {
          const __m256i entry = step(table, at[c].stack + 8 * part, at[c].state + 8 * part, at[c].word);
          codes[c][part] =
              round == 0 ? entry
                         : _mm256_or_si256(_mm256_srli_epi32(codes[c][part], 8), _mm256_and_si256(entry, code_mask));
        }
      }
      if (round % 2 == 1) {
        bool overrun = false;
        ECQ_UNROLL
        for (std::size_t c = 0; c < Chunks; ++c) overrun = overrun || at[c].word > at[c].end;
        if (overrun) return false;
      }
    }
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      ECQ_UNROLL
      for (std::size_t part = 0; part < 4; ++part) store(at[c].out + 32 * part, codes[c][part]);
      at[c].out += group_symbols;
    }
  }
  for (std::size_t c = 0; c < Chunks; ++c) {
    at[c].left -= static_cast<std::uint32_t>(groups * group_symbols);
    *cursors[c] = at[c];
  }
  return true;
}

}  // namespace ecq::detail::avx2

#endif
