#pragma once
/// \file
/// Conversion of pairs of nibbles to symbols in AVX2 registers, 32 at a time.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/stream/escape_cursor.hpp"

namespace ecq::detail {

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
      if (!escapes.can_take(static_cast<std::size_t>(std::popcount(escaped)))) break;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + at), found);
    for (; escaped != 0; escaped &= escaped - 1) {
      symbols[at + static_cast<std::size_t>(std::countr_zero(escaped))] = escapes.take();
    }
  }
  return at;
}

}  // namespace ecq::detail

#endif
