#pragma once
/// \file
/// Kernels for AVX-512 with VBMI that round the weights of all codes and look them up by codes, in registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Table of one byte for each of 256 codes.
struct byte_plane {
  /// Takes byte number `which` of each element.
  template <class Word>
  ECQ_AVX512 byte_plane(const Word* elements, unsigned which) {
    std::uint8_t all[256];
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(8 * which));
    for (std::size_t at = 0; at < 256; at += 64 / sizeof(Word)) {
      const __m512i some = _mm512_loadu_si512(elements + at);
      if constexpr (sizeof(Word) == 2) {
        const __m256i bytes = _mm512_cvtepi16_epi8(_mm512_srl_epi16(some, shift));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(all + at), bytes);
      } else {
        const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_srl_epi32(some, shift));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(all + at), bytes);
      }
    }
    for (std::size_t i = 0; i < 4; ++i) of_codes[i] = _mm512_loadu_si512(all + 64 * i);
  }

  /// Returns the bytes of `codes`; `upper` marks the codes from 128 on.
  ECQ_AVX512 __m512i operator()(__m512i codes, __mmask64 upper) const {
    return _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(of_codes[0], codes, of_codes[1]), upper,
                                _mm512_permutex2var_epi8(of_codes[2], codes, of_codes[3]));
  }

  __m512i of_codes[4];
};

/// Rounding of 16 weights to the nearest FP16 numbers, ties to even.
struct nearest_fp16 {
  static constexpr float largest = 65504;

  ECQ_AVX512 static __m256i of(__m512 weights) {
    return _mm512_cvtps_ph(weights, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
};

/// Rounding of 16 weights to the nearest BF16 numbers, ties to even.
struct nearest_bf16 {
  static constexpr float largest = 0x1.FEp127F;

  ECQ_AVX512 static __m256i of(__m512 weights) {
    const __m512i bits = _mm512_castps_si512(weights);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, up), 16));
  }
};

/// Sets `elements` to the numbers nearest to the `weights` of 256 codes, or to the largest ones for weights beyond
/// them. Elements are NaN for codes whose `values` are not finite.
template <class Nearest>
ECQ_AVX512 inline void round_weights(const float* weights, const float* values, std::uint16_t* elements) {
  const __m512 largest = _mm512_set1_ps(Nearest::largest);
  const __m512 lowest = _mm512_set1_ps(-Nearest::largest);
  const __m512i infinity = _mm512_set1_epi32(0x7F800000);
  const __m256i nan = _mm256_set1_epi16(0x7FFF);
  for (std::size_t at = 0; at < 256; at += 16) {
    const __m512 weight = _mm512_max_ps(_mm512_min_ps(_mm512_loadu_ps(weights + at), largest), lowest);
    const __m512i unset = _mm512_andnot_si512(_mm512_loadu_si512(values + at), infinity);
    const __mmask16 not_finite = _mm512_testn_epi32_mask(unset, unset);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(elements + at),
                        _mm256_mask_mov_epi16(Nearest::of(weight), not_finite, nan));
  }
}

/// Number of codes that are looked up at once.
inline constexpr std::size_t looked_up_together = 64;

/// Sets out[i] = elements[codes[i]], for a multiple of 64 codes and elements of 2 or 4 bytes. Returns whether the
/// highest 16 bits of every element, without the sign, are below `infinity`.
template <class Word>
ECQ_AVX512 inline bool look_up(const Word* elements, const std::byte* codes, std::size_t count, void* out,
                               std::uint16_t infinity) {
  constexpr std::size_t width = sizeof(Word);
  const byte_plane planes[4] = {{elements, 0}, {elements, 1}, {elements, width - 2}, {elements, width - 1}};
  std::uint8_t bytes_of[2][64];
  std::uint16_t words_of[2][32];
  for (unsigned i = 0; i < 64; ++i) {  // alternates between two registers
    for (unsigned half = 0; half < 2; ++half) {
      bytes_of[half][i] = static_cast<std::uint8_t>(32 * half + i / 2 + i % 2 * 64);
      words_of[half][i / 2] = static_cast<std::uint16_t>(16 * half + i / 4 + i / 2 % 2 * 32);
    }
  }
  const __m512i bytes_in_turn[2] = {_mm512_loadu_si512(bytes_of[0]), _mm512_loadu_si512(bytes_of[1])};
  const __m512i words_in_turn[2] = {_mm512_loadu_si512(words_of[0]), _mm512_loadu_si512(words_of[1])};
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  __m512i largest = _mm512_setzero_si512();
  auto* to = static_cast<std::byte*>(out);
  for (std::size_t at = 0; at < count; at += looked_up_together) {
    const __m512i some = _mm512_loadu_si512(codes + at);
    const __mmask64 upper = _mm512_movepi8_mask(some);
    __m512i bytes[4];
    ECQ_UNROLL
    for (std::size_t i = 4 - width; i < 4; ++i) bytes[i] = planes[i](some, upper);
    ECQ_UNROLL
    for (const __m512i& half : bytes_in_turn) {
      const __m512i highest = _mm512_permutex2var_epi8(bytes[2], half, bytes[3]);
      largest = _mm512_max_epu16(largest, _mm512_and_si512(highest, magnitude));
      if constexpr (width == 2) {
        _mm512_storeu_si512(to, highest);
        to += 64;
      } else {
        const __m512i lowest = _mm512_permutex2var_epi8(bytes[0], half, bytes[1]);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(lowest, words_in_turn[0], highest));
        _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi16(lowest, words_in_turn[1], highest));
        to += 128;
      }
    }
  }
  return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(static_cast<short>(infinity))) == 0;
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
