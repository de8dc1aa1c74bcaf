#pragma once
/// \file
/// Tiles of weights as BF16 values with AVX-512, and their products with some rows of activations. Both are in the
/// order of matmul/fusion.hpp, so weights need no reordering.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ecq/format/bf16.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/weight_tile.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

struct tile_target;

/// Tiles of chunks that are decoded side by side (matmul/round_sinks_avx512.hpp).
template <std::size_t Weights>
struct round_tiles {
  static constexpr std::size_t together = weight_chunks;

  round_tiles(std::size_t first, const tile_target& target);

  static std::size_t run() { return (std::numeric_limits<std::size_t>::max)(); }

  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t i, __m512i halves) const {
    _mm512_storeu_si512(to[c] + 32 * i, halves);
  }

  void end(std::size_t c) { to[c] += Weights; }
  static void end_run(std::size_t) {}
  static void leave(std::size_t) {}

  std::uint16_t* to[together];
};

/// Target of weights that stores them.
struct tile_target {
  static constexpr std::size_t together = 4;
  template <std::size_t Weights>
  using rounds = round_tiles<Weights>;

  struct group {
    ECQ_AVX512 [[gnu::always_inline]] inline group(const tile_target& target, std::size_t c) : to(target.to[c]) {}

    ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t i, __m512i halves) const {
      _mm512_storeu_si512(to + 32 * i, halves);
    }

    // A register has every second one of 64 codes.
    void escape(unsigned at, std::uint16_t half) const { to[at / 64 * 64 + at % 2 * 32 + at % 64 / 2] = half; }

    std::uint16_t* to;
  };

  template <std::size_t Weights>
  ECQ_AVX512 [[gnu::always_inline]] inline void advance(std::size_t c, const group&) {
    to[c] += Weights;
  }

  std::uint16_t* to[weight_chunks];
};

template <std::size_t Weights>
round_tiles<Weights>::round_tiles(std::size_t first, const tile_target& target) {
  std::copy_n(target.to + first, together, to);
}

/// Returns sums of neighbouring quarters: the first and second, then the third and fourth of `a`, then those of `b`.
ECQ_AVX512 inline __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

/// Returns partial sums of four vectors, in the order of the vectors, in each quarter of a register.
ECQ_AVX512 inline __m512 sums_in_quarters(const __m512 (&of)[4]) {
  __m512d pair[2];
  ECQ_UNROLL
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512 a = of[2 * half], b = of[2 * half + 1];
    pair[half] = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
  }
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(pair[0], pair[1])),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(pair[0], pair[1])));
}

/// sums[row * stride + b] += the sum of the lanes of sum[row][b].
template <std::size_t Rows, std::size_t Batch>
ECQ_AVX512 inline void add_lanes(const __m512 (&sum)[Rows][Batch], float* sums, std::size_t stride) {
  if constexpr (Rows == 4 && Batch == 4) {
    __m512 row[4];
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) row[i] = sums_in_quarters(sum[i]);
    const __m512 all = add_quarters(add_quarters(row[0], row[1]), add_quarters(row[2], row[3]));
    alignas(64) float of_rows[4][4];
    _mm512_store_ps(of_rows[0], all);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      float* const to = sums + i * stride;
      _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), _mm_load_ps(of_rows[i])));
    }
  } else if constexpr (Batch == 4) {
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      const __m512 quarters = sums_in_quarters(sum[row]);
      const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps(quarters, 1));
      float* const to = sums + row * stride;
      const __m128 all = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
      _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), all));
    }
  } else {
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) sums[row * stride + b] += _mm512_reduce_add_ps(sum[row][b]);
    }
  }
}

/// Returns the scale of each lane in the sums of a run.
ECQ_AVX512 [[gnu::always_inline]] inline __m512 scale_of_run(const bf16* scales, const scale_run& run) {
  constexpr __mmask32 high_halves = 0xAAAAAAAA;
  __m512i scale = _mm512_maskz_set1_epi16(high_halves, static_cast<short>(scales[run.number].bits));
  constexpr __mmask32 of_upper_lanes = 0xAAAA0000;
  scale = _mm512_mask_set1_epi16(scale, of_upper_lanes, static_cast<short>(scales[run.second].bits));
  return _mm512_castsi512_ps(scale);
}

/// Multiplies the sums of a run by the scales of their rows and adds them to `scaled`; the first run sets `scaled`.
template <std::size_t Rows, std::size_t Batch>
ECQ_AVX512 [[gnu::always_inline]] inline void scale_sums(const __m512 (&sum)[Rows][Batch], const bf16* const* scales,
                                                         const scale_run& run, scaled_sums<Rows, Batch, 16>& scaled) {
  const __mmask16 others = run.is_first() ? 0 : 0xFFFF;
  ECQ_UNROLL
  for (std::size_t row = 0; row < Rows; ++row) {
    const __m512 scale = scale_of_run(scales[row], run);
    ECQ_UNROLL
    for (std::size_t b = 0; b < Batch; ++b) {
      float* const to = scaled.of(row, b);
      _mm512_store_ps(to, _mm512_fmadd_ps(sum[row][b], scale, _mm512_maskz_loadu_ps(others, to)));
    }
  }
}

/// sums[row * stride + b] += the sum of the lanes of `scaled`.
template <std::size_t Rows, std::size_t Batch>
ECQ_AVX512 [[gnu::always_inline]] inline void add_scaled(const scaled_sums<Rows, Batch, 16>& scaled, float* sums,
                                                         std::size_t stride) {
  __m512 sum[Rows][Batch];
  ECQ_UNROLL
  for (std::size_t row = 0; row < Rows; ++row) {
    ECQ_UNROLL
    for (std::size_t b = 0; b < Batch; ++b) sum[row][b] = _mm512_load_ps(scaled.of(row, b));
  }
  add_lanes<Rows, Batch>(sum, sums, stride);
}

/// Dot products of a tile (matmul/weight_tile.hpp) with activations of FP32.
struct tile_dots {
  using activation = float;
  static constexpr std::size_t rows = 4;
  static constexpr std::size_t fewer_rows = 1;
  static constexpr bool weights_stay = false;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX512 static void add(const std::uint16_t* weights, std::size_t weight_stride, const bf16* const* scales,
                             const float* x, std::size_t stride, const column_range& columns, float* sums,
                             std::size_t sum_stride) {
    scaled_sums<Rows, Batch, 16> scaled;
    for (scale_run run(columns); run.is_there(); run.advance()) {
      __m512 sum[Rows][Batch] = {};
      for (std::size_t i = run.begin; i < run.end; i += 32) {
        __m512 some[2][Batch];
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          some[0][b] = _mm512_loadu_ps(x + b * stride + i);
          some[1][b] = _mm512_loadu_ps(x + b * stride + i + 16);
        }
        ECQ_UNROLL
        for (std::size_t row = 0; row < Rows; ++row) {
          const __m512i halves = _mm512_loadu_si512(weights + row * weight_stride + (i - columns.first));
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
      if (scales[0] == nullptr) return add_lanes<Rows, Batch>(sum, sums, sum_stride);
      scale_sums(sum, scales, run, scaled);
    }
    add_scaled(scaled, sums, sum_stride);
  }
};

/// Adds products of columns `first` to `last` with activations of BF16 to the lanes of `sum`. `weights` begin with
/// `first`.
template <std::size_t Rows, std::size_t Batch>
ECQ_AVX512 [[gnu::always_inline]] inline void add_half_columns(__m512 (&sum)[Rows][Batch], const std::uint16_t* weights,
                                                               std::size_t weight_stride, const std::uint16_t* x,
                                                               std::size_t stride, std::size_t first,
                                                               std::size_t last) {
  for (std::size_t i = first; i < last; i += 32) {
    __m512i some[Batch];
    ECQ_UNROLL
    for (std::size_t b = 0; b < Batch; ++b) {
      some[b] = _mm512_loadu_si512(x + b * stride + i);
#if !ECQ_AVX512_EMULATED
      __asm__("" : "+v"(some[b]));  // compilers would load it again for each row
#endif
    }
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      const __m512i halves = _mm512_loadu_si512(weights + row * weight_stride + (i - first));
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) sum[row][b] = add_half_products(sum[row][b], halves, some[b]);
    }
  }
}

/// Dot products of a tile with activations of BF16, if all columns share a scale.
struct half_tile_dots {
  using activation = std::uint16_t;
  static constexpr std::size_t rows = 6;
  static constexpr std::size_t fewer_rows = 4;
  static constexpr bool weights_stay = true;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX512 static void add(const std::uint16_t* weights, std::size_t weight_stride, const bf16* const*,
                             const std::uint16_t* x, std::size_t stride, const column_range& columns, float* sums,
                             std::size_t sum_stride) {
    __m512 sum[Rows][Batch] = {};
    add_half_columns(sum, weights, weight_stride, x, stride, columns.first, columns.first + columns.count);
    add_lanes<Rows, Batch>(sum, sums, sum_stride);
  }
};

/// Dot products of a tile with activations of BF16, if runs of columns have scales of their own. With so few rows,
/// registers hold the sums over all scales beside those of one scale. With six rows, and sums in memory, products with
/// a scale for each 128 columns took 1.2 times as long on Zen 4.
struct scaled_half_dots {
  using activation = std::uint16_t;
  static constexpr std::size_t rows = 3;
  static constexpr std::size_t fewer_rows = 2;
  static constexpr bool weights_stay = true;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX512 static void add(const std::uint16_t* weights, std::size_t weight_stride, const bf16* const* scales,
                             const std::uint16_t* x, std::size_t stride, const column_range& columns, float* sums,
                             std::size_t sum_stride) {
    __m512 all[Rows][Batch] = {};
    for (scale_run run(columns); run.is_there(); run.advance()) {
      __m512 sum[Rows][Batch] = {};
      add_half_columns(sum, weights + (run.begin - columns.first), weight_stride, x, stride, run.begin, run.end);
      ECQ_UNROLL
      for (std::size_t row = 0; row < Rows; ++row) {
        const __m512 scale = scale_of_run(scales[row], run);
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) all[row][b] = _mm512_fmadd_ps(sum[row][b], scale, all[row][b]);
      }
    }
    add_lanes<Rows, Batch>(all, sums, sum_stride);
  }
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
