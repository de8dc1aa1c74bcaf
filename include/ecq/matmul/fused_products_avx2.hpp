#pragma once
/// \file
/// Dot products with AVX2 in the registers in which weights are decoded. Weights are never stored.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/matmul/dot_product_avx2.hpp"
#include "ecq/matmul/fusion.hpp"

namespace ecq::detail::avx2 {

/// Products of a chunk: one sum for each scale, in each row of W, of which it has weights.
struct product_cursor : row_walk {
  float* sums = nullptr;  ///< next sum
  alignas(32) float partial[8] = {};

  /// Stores the sum and begins the next one.
  ECQ_AVX2 void end_sum() {
    *sums++ = sum_of_lanes(_mm256_load_ps(partial));
    _mm256_store_ps(partial, _mm256_setzero_ps());
  }
};

/// Target of weights that multiplies them by activations.
struct product_target {
  struct group {
    ECQ_AVX2 [[gnu::always_inline]] inline group(const product_target& target, std::size_t c)
        : at(*target.to[c]),
          x(target.row.x + at.column),
          plain(target.row.plain + at.column),
          sum{_mm256_load_ps(at.partial), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()} {}

    ECQ_AVX2 [[gnu::always_inline]] inline void take(std::size_t i, __m256i halves) {
      take(i, first_values(halves), second_values(halves));
    }

    ECQ_AVX2 [[gnu::always_inline]] inline void take(std::size_t i, __m256 first_eight, __m256 second_eight) {
      __m256& first = sum[i % 2 * 2];
      __m256& second = sum[i % 2 * 2 + 1];
      first = _mm256_fmadd_ps(first_eight, _mm256_loadu_ps(x + 16 * i), first);
      second = _mm256_fmadd_ps(second_eight, _mm256_loadu_ps(x + 16 * i + 8), second);
    }

    void escape(unsigned place, std::uint16_t half) {
      rare += std::bit_cast<float>(std::uint32_t{half} << 16) * plain[place];
    }

    product_cursor& at;
    const float* x;
    const float* plain;
    __m256 sum[4];  // four sums that do not wait for each other
    float rare = 0;
  };

  template <std::size_t Weights>
  ECQ_AVX2 [[gnu::always_inline]] inline void advance(std::size_t, group& done) const {
    product_cursor& at = done.at;
    const __m256 all = _mm256_add_ps(_mm256_add_ps(done.sum[0], done.sum[1]), _mm256_add_ps(done.sum[2], done.sum[3]));
    _mm256_store_ps(at.partial, all);
    if constexpr (Weights != group_symbols) at.partial[0] += done.rare;  // only pairs have escapes
    if (at.advance(row, Weights)) at.end_sum();
  }

  product_row<float> row;
  product_cursor* to[weight_chunks];
};

}  // namespace ecq::detail::avx2

#endif
