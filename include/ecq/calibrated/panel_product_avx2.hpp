#pragma once
/// \file
/// Products of panels with AVX2.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

ECQ_AVX2 inline __m256 load(const float* from) { return _mm256_loadu_ps(from); }
ECQ_AVX2 inline __m256d load(const double* from) { return _mm256_loadu_pd(from); }
ECQ_AVX2 inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }
ECQ_AVX2 inline __m256d broadcast(const double* from) { return _mm256_broadcast_sd(from); }
ECQ_AVX2 inline void store(float* to, __m256 values) { _mm256_storeu_ps(to, values); }
ECQ_AVX2 inline void store(double* to, __m256d values) { _mm256_storeu_pd(to, values); }

/// AVX2 kernel of subtract_part() (panel_product.hpp). Products are rounded before they are subtracted, as everywhere.
template <std::size_t Lanes, class Value>
ECQ_EXACT_FLOAT ECQ_AVX2 inline void subtract_part(Value* tile, const Value* panel, const Value* rows,
                                                   std::size_t count) {
  ECQ_EXACT_FLOAT_BODY
  using vector = decltype(load(tile));
  constexpr std::size_t half = sizeof(vector) / sizeof(Value);
  vector low[4], high[4];
  ECQ_UNROLL
  for (std::size_t column = 0; column < 4; ++column) {
    low[column] = load(tile + column * Lanes);
    high[column] = load(tile + column * Lanes + half);
  }
  for (std::size_t k = 0; k < count; ++k) {
    const vector low_row = load(rows + k * 2 * half), high_row = load(rows + k * 2 * half + half);
    ECQ_UNROLL
    for (std::size_t column = 0; column < 4; ++column) {
      const vector factor = broadcast(panel + k * 4 + column);
      low[column] = low[column] - factor * low_row;
      high[column] = high[column] - factor * high_row;
    }
  }
  ECQ_UNROLL
  for (std::size_t column = 0; column < 4; ++column) {
    store(tile + column * Lanes, low[column]);
    store(tile + column * Lanes + half, high[column]);
  }
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
