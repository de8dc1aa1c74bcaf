#pragma once
/// \file
/// Products of panels with AVX2.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

/// subtract_part of panel_product.hpp. Products are rounded before they are subtracted, as everywhere.
template <std::size_t Lanes>
ECQ_EXACT_FLOAT ECQ_AVX2 inline void subtract_part(float* tile, const float* panel, const float* rows,
                                                   std::size_t count) {
  ECQ_EXACT_FLOAT_BODY
  __m256 low[4], high[4];
  ECQ_UNROLL
  for (std::size_t column = 0; column < 4; ++column) {
    low[column] = _mm256_loadu_ps(tile + column * Lanes);
    high[column] = _mm256_loadu_ps(tile + column * Lanes + 8);
  }
  for (std::size_t k = 0; k < count; ++k) {
    const __m256 low_row = _mm256_loadu_ps(rows + k * 16);
    const __m256 high_row = _mm256_loadu_ps(rows + k * 16 + 8);
    ECQ_UNROLL
    for (std::size_t column = 0; column < 4; ++column) {
      const __m256 factor = _mm256_broadcast_ss(panel + k * 4 + column);
      low[column] = _mm256_sub_ps(low[column], _mm256_mul_ps(factor, low_row));
      high[column] = _mm256_sub_ps(high[column], _mm256_mul_ps(factor, high_row));
    }
  }
  ECQ_UNROLL
  for (std::size_t column = 0; column < 4; ++column) {
    _mm256_storeu_ps(tile + column * Lanes, low[column]);
    _mm256_storeu_ps(tile + column * Lanes + 8, high[column]);
  }
}

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
