#pragma once
/// \file
/// Dot products by AVX2, with the same bits as dot.hpp, for several rows and tokens at a time.

#include "ecq/base/config.hpp"

#if ECQ_X86
#include <immintrin.h>

#include <cstddef>

#include "dot.hpp"
#include "ecq/format/bf16.hpp"

namespace llama::avx2 {

ECQ_AVX2 inline __m256 load_eight(const ecq::bf16* from) noexcept {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
ECQ_AVX2 inline __m256 load_eight(const float* from) noexcept { return _mm256_loadu_ps(from); }

/// Sets sums[row * Tokens + token] = dot(weights + row * row_stride, values + token * token_stride, size).
template <std::size_t Rows, std::size_t Tokens, class Weight>
ECQ_AVX2 ECQ_EXACT_FLOAT void dot_tile(const Weight* weights, std::size_t row_stride, const float* values,
                                       std::size_t token_stride, std::size_t size, float* sums) noexcept {
  ECQ_EXACT_FLOAT_BODY
  __m256 low[Rows * Tokens], high[Rows * Tokens];
  ECQ_UNROLL
  for (std::size_t cell = 0; cell < Rows * Tokens; ++cell) low[cell] = high[cell] = _mm256_setzero_ps();
  std::size_t at = 0;
  for (; at + dot_lanes <= size; at += dot_lanes) {
    __m256 value_low[Tokens], value_high[Tokens];
    ECQ_UNROLL
    for (std::size_t token = 0; token < Tokens; ++token) {
      value_low[token] = _mm256_loadu_ps(values + token * token_stride + at);
      value_high[token] = _mm256_loadu_ps(values + token * token_stride + at + 8);
    }
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      const __m256 weight_low = load_eight(weights + row * row_stride + at);
      const __m256 weight_high = load_eight(weights + row * row_stride + at + 8);
      ECQ_UNROLL
      for (std::size_t token = 0; token < Tokens; ++token) {
        const std::size_t cell = row * Tokens + token;
        low[cell] = _mm256_add_ps(low[cell], _mm256_mul_ps(weight_low, value_low[token]));
        high[cell] = _mm256_add_ps(high[cell], _mm256_mul_ps(weight_high, value_high[token]));
      }
    }
  }
  for (std::size_t row = 0; row < Rows; ++row) {
    for (std::size_t token = 0; token < Tokens; ++token) {
      float lanes[dot_lanes];
      _mm256_storeu_ps(lanes, low[row * Tokens + token]);
      _mm256_storeu_ps(lanes + 8, high[row * Tokens + token]);
      sums[row * Tokens + token] =
          finish_dot(lanes, weights + row * row_stride, values + token * token_stride, at, size);
    }
  }
}

}  // namespace llama::avx2
#endif
