#pragma once
/// \file
/// Pairs of nibbles to symbols, many at a time (stream/pair_io.hpp).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/cpu/instruction_set.hpp"
#include "ecq/entropy/nibble_list.hpp"

#if ECQ_X86
#include <immintrin.h>
#endif

namespace ecq::detail {

/// The escapes of a chunk that are not yet taken: symbols of at most `largest`, one byte each.
struct escape_cursor {
  const std::byte* next = nullptr;
  const std::byte* end = nullptr;
  std::uint8_t largest = 255;

  std::size_t left() const noexcept { return static_cast<std::size_t>(end - next); }
};

#if ECQ_X86

ECQ_AVX512 inline std::size_t split_pairs_avx512(const nibble_list& list, const std::uint8_t* pairs, std::size_t count,
                                                 std::uint8_t* symbols, escape_cursor& escapes) {
  const __m512i listed =
      _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(list.symbols.data())));
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i largest = _mm512_set1_epi8(static_cast<char>(escapes.largest));
  const bool escaping = list.has_escape();
  std::size_t at = 0;
  for (; at < count; at += 64) {
    const __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs + at / 2)));
    const __m512i nibbles = _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi16(words, 4)), low);
    __m512i found = _mm512_shuffle_epi8(listed, nibbles);
    if (escaping) {
      const __mmask64 escaped = _mm512_cmpeq_epi8_mask(nibbles, low);
      if (escaped != 0) [[unlikely]] {
        const auto taken = static_cast<std::size_t>(std::popcount(std::uint64_t{escaped}));
        if (taken > escapes.left()) break;
        found = _mm512_mask_expandloadu_epi8(found, escaped, escapes.next);
        if (_mm512_cmpgt_epu8_mask(found, largest) != 0) break;
        escapes.next += taken;
      }
    }
    _mm512_storeu_si512(symbols + at, found);
  }
  return at;
}

ECQ_AVX2 inline std::size_t split_pairs_avx2(const nibble_list& list, const std::uint8_t* pairs, std::size_t count,
                                             std::uint8_t* symbols, escape_cursor& escapes) {
  const __m256i listed =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(list.symbols.data())));
  const __m256i low = _mm256_set1_epi8(15);
  const bool escaping = list.has_escape();
  std::size_t at = 0;
  for (; at < count; at += 32) {
    const __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + at / 2)));
    const __m256i nibbles = _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), low);
    const __m256i found = _mm256_shuffle_epi8(listed, nibbles);
    auto escaped = escaping ? static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(nibbles, low))) : 0U;
    if (escaped != 0) [[unlikely]] {
      const auto taken = static_cast<std::size_t>(std::popcount(escaped));
      const auto is_symbol = [&](std::byte value) { return std::to_integer<unsigned>(value) <= escapes.largest; };
      if (taken > escapes.left() || !std::all_of(escapes.next, escapes.next + taken, is_symbol)) break;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + at), found);
    for (; escaped != 0; escaped &= escaped - 1) {
      symbols[at + static_cast<std::size_t>(std::countr_zero(escaped))] = static_cast<std::uint8_t>(*escapes.next++);
    }
  }
  return at;
}

#endif

/// Writes the symbols of the first of `count` nibbles and returns how many, a multiple of 32; stops before escapes that
/// are not there or no symbols.
inline std::size_t split_many_pairs([[maybe_unused]] const nibble_list& list,
                                    [[maybe_unused]] const std::uint8_t* pairs, [[maybe_unused]] std::size_t count,
                                    [[maybe_unused]] std::uint8_t* symbols, [[maybe_unused]] escape_cursor& escapes,
                                    [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  const instruction_set chosen = chosen_instruction_set(isa);
  count &= ~std::size_t{63};
  if (chosen == instruction_set::avx512) return split_pairs_avx512(list, pairs, count, symbols, escapes);
  if (chosen == instruction_set::avx2) return split_pairs_avx2(list, pairs, count, symbols, escapes);
#endif
  return 0;
}

}  // namespace ecq::detail
