#pragma once
/// \file
/// Conversion of pairs of nibbles to symbols in AVX-512 registers, 64 at a time.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/stream/escape_cursor.hpp"

namespace ecq::detail {

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

}  // namespace ecq::detail

#endif
