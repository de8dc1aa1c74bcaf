#pragma once
/// \file
/// Weights as a tile of BF16 values with AVX-512, and its products with some rows of activations. Both are in the order
/// of matmul/fusion.hpp, so weights need no reordering.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/matmul/dot_product_avx512.hpp"
#include "ecq/matmul/fusion.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// A target of weights that stores them.
struct tile_target {
  struct group {
    ECQ_AVX512 [[gnu::always_inline]] inline group(const tile_target& target, std::size_t c) : to(target.to[c]) {}

    ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t i, __m512i halves) const {
      _mm512_storeu_si512(to + 32 * i, halves);
    }

    // A register has every second of 64 codes.
    void escape(unsigned at, std::uint16_t half) const { to[at / 64 * 64 + at % 2 * 32 + at % 64 / 2] = half; }

    std::uint16_t* to;
  };

  template <std::size_t Weights>
  ECQ_AVX512 [[gnu::always_inline]] inline void advance(std::size_t c, const group&) {
    to[c] += Weights;
  }

  std::uint16_t* to[weight_chunks];
};

/// Dot products of a tile (matmul/weight_tile.hpp).
struct tile_dots {
  static constexpr std::size_t rows = 4;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX512 static void add(const std::uint16_t* weights, std::size_t weight_stride, const float* x,
                             std::size_t stride, std::size_t count, float* sums, std::size_t sum_stride) {
    __m512 sum[Rows][Batch] = {};
    for (std::size_t i = 0; i < count; i += 32) {
      __m512 some[2][Batch];
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) {
        some[0][b] = _mm512_loadu_ps(x + b * stride + i);
        some[1][b] = _mm512_loadu_ps(x + b * stride + i + 16);
      }
      ECQ_UNROLL
      for (std::size_t row = 0; row < Rows; ++row) {
        const __m512i halves = _mm512_loadu_si512(weights + row * weight_stride + i);
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          sum[row][b] = _mm512_fmadd_ps(first_values(halves), some[0][b], sum[row][b]);
        }
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          sum[row][b] = _mm512_fmadd_ps(second_values(halves), some[1][b], sum[row][b]);
        }
      }
    }
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) sums[row * sum_stride + b] += _mm512_reduce_add_ps(sum[row][b]);
    }
  }
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
