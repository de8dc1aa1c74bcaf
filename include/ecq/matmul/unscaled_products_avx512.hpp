#pragma once
/// \file
/// Products of tiles that have yet to meet their scales, with AVX-512, which every processor with AMX has.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>

#include "ecq/format/bf16.hpp"
#include "ecq/matmul/tile_products_amx.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::amx {

/// Products whose rows have scales of their own, which are not yet in the sums.
struct unscaled_products {
  std::size_t number;  ///< of the scale in each row
  alignas(64) float products[rows_together][rows_together];
};

/// sums[row * stride + b] += of.products[row][b] * the scale of row `row`.
ECQ_AVX512 inline void add_scaled(const unscaled_products& of, const bf16* const* scales, std::size_t rows,
                                  std::size_t batch, float* sums, std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    const __m512 scale = _mm512_set1_ps(static_cast<float>(scales[row][of.number]));
    for (std::size_t b = 0; b < batch; b += 16) {
      const auto there = static_cast<__mmask16>(_bzhi_u32(0xFFFFU, static_cast<unsigned>(batch - b)));
      float* const to = sums + row * stride + b;
      const __m512 sum = _mm512_fmadd_ps(_mm512_load_ps(of.products[row] + b), scale, _mm512_maskz_loadu_ps(there, to));
      _mm512_mask_storeu_ps(to, there, sum);
    }
  }
}

}  // namespace ecq::detail::amx

ECQ_KERNELS_END

#endif
