#pragma once
/// \file
/// Multiplication of rows of products by their scales, with AVX-512.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

#include "ecq/format/bf16.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// sums[row * stride + b] += products[row * Width + b] * scales[row][number]. `products` are aligned to 64 bytes.
template <std::size_t Width>
ECQ_AVX512 inline void add_scaled(const float* products, const bf16* const* scales, std::size_t number,
                                  std::size_t rows, std::size_t batch, float* sums, std::size_t stride) {
  static_assert(Width % 16 == 0);
  for (std::size_t row = 0; row < rows; ++row) {
    const __m512 scale = _mm512_set1_ps(static_cast<float>(scales[row][number]));
    for (std::size_t b = 0; b < batch; b += 16) {
      const auto there = static_cast<__mmask16>(_bzhi_u32(0xFFFFU, static_cast<unsigned>(batch - b)));
      float* const to = sums + row * stride + b;
      const __m512 some = _mm512_load_ps(products + row * Width + b);
      _mm512_mask_storeu_ps(to, there, _mm512_fmadd_ps(some, scale, _mm512_maskz_loadu_ps(there, to)));
    }
  }
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
