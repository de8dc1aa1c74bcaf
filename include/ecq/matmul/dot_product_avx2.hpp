#pragma once
/// \file
/// Dot products with AVX2.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

ECQ_AVX2 inline float sum_of_lanes(__m256 values) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/// Returns the BF16 values in the lower halves of 32-bit lanes; second_values() returns those in the upper halves.
ECQ_AVX2 inline __m256 first_values(__m256i halves) { return _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16)); }
ECQ_AVX2 inline __m256 second_values(__m256i halves) {
  return _mm256_castsi256_ps(_mm256_and_si256(halves, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

/// Returns the sum of weights[i] * x[i].
ECQ_AVX2 inline float dot(const float* weights, const float* x, std::size_t count) {
  __m256 sums[4] = {};
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 4; ++part) {
      sums[part] =
          _mm256_fmadd_ps(_mm256_loadu_ps(weights + i + 8 * part), _mm256_loadu_ps(x + i + 8 * part), sums[part]);
    }
  }
  float rest = 0;
  for (; i < count; ++i) rest += weights[i] * x[i];
  return rest + sum_of_lanes(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
}

/// Adds dot() with each of four rows of activations, `stride` apart, to out[b].
ECQ_AVX2 inline void add_four_dots(const float* weights, const float* x, std::size_t stride, std::size_t count,
                                   float* out) {
  __m256 sums[8] = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 2; ++part) {
      const __m256 eight = _mm256_loadu_ps(weights + i + 8 * part);
      ECQ_UNROLL
      for (std::size_t b = 0; b < 4; ++b) {
        sums[4 * part + b] = _mm256_fmadd_ps(eight, _mm256_loadu_ps(x + b * stride + i + 8 * part), sums[4 * part + b]);
      }
    }
  }
  for (std::size_t b = 0; b < 4; ++b) {
    float rest = 0;
    for (std::size_t at = i; at < count; ++at) rest += weights[at] * x[b * stride + at];
    out[b] += rest + sum_of_lanes(_mm256_add_ps(sums[b], sums[4 + b]));
  }
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
