#pragma once
/// \file
/// Tiles of weights as BF16 values or as bytes with AVX2, and products of BF16 tiles with some rows of activations.
/// Weights and activations are in the order of matmul/fusion.hpp, so weights need no reordering.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/dot_product_avx2.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/weight_tile.hpp"

namespace ecq::detail::avx2 {

/// Base of targets that store weights: the places of the next weights of chunks.
template <class Element>
struct stored_target {
  using element = Element;

  template <std::size_t Weights, class Group>
  ECQ_AVX2 [[gnu::always_inline]] inline void advance(std::size_t c, const Group&) {
    to[c] += Weights;
  }

  Element* to[weight_chunks];
};

/// Target of weights that stores them as BF16 values, or as integers of 16 bits.
struct tile_target : stored_target<std::uint16_t> {
  struct group {
    ECQ_AVX2 [[gnu::always_inline]] inline group(const tile_target& target, std::size_t c) : to(target.to[c]) {}

    ECQ_AVX2 [[gnu::always_inline]] inline void take(std::size_t i, __m256i halves) const {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * i), halves);
    }

    /// Takes values that BF16 holds exactly.
    ECQ_AVX2 [[gnu::always_inline]] inline void take(std::size_t i, __m256 first, __m256 second) const {
      take(i, _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(first), 16), _mm256_castps_si256(second)));
    }

    void escape(unsigned at, std::uint16_t half) const { to[half_place_avx2(fusion::pairs, at)] = half; }

    element* to;
  };
};

/// Target of weights that stores integer codes, as bytes in the order of byte_place_avx2().
struct byte_target : stored_target<std::byte> {
  struct group {
    ECQ_AVX2 [[gnu::always_inline]] inline group(const byte_target& target, std::size_t c) : to(target.to[c]) {}

    ECQ_AVX2 [[gnu::always_inline]] inline void take_bytes(std::size_t run, __m256i bytes) const {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * run), bytes);
    }

    void escape(unsigned at, std::uint16_t code) const {
      to[byte_place_avx2(fusion::pairs, at)] = static_cast<std::byte>(code);
    }

    element* to;
  };
};

/// Dot products of a tile (matmul/weight_tile.hpp).
struct tile_dots {
  using activation = float;
  static constexpr std::size_t rows = 3;
  static constexpr std::size_t fewer_rows = 1;
  static constexpr bool weights_stay = false;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void add(const std::uint16_t* weights, std::size_t weight_stride, const bf16* const* scales,
                           const float* x, std::size_t stride, const column_range& columns, float* sums,
                           std::size_t sum_stride) {
    scaled_sums<Rows, Batch, 8> scaled;
    for (scale_run run(columns); run.is_there(); run.advance()) {
      __m256 sum[Rows][Batch] = {};
      for (std::size_t i = run.begin; i < run.end; i += 16) {
        __m256i halves[Rows];
        ECQ_UNROLL
        for (std::size_t row = 0; row < Rows; ++row) {
          const std::uint16_t* const from = weights + row * weight_stride + (i - columns.first);
          halves[row] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        }
        ECQ_UNROLL
        for (std::size_t part = 0; part < 2; ++part) {
          __m256 values[Rows];
          ECQ_UNROLL
          for (std::size_t row = 0; row < Rows; ++row) {
            values[row] = part == 0 ? first_values(halves[row]) : second_values(halves[row]);
          }
          ECQ_UNROLL
          for (std::size_t b = 0; b < Batch; ++b) {
            const __m256 some = _mm256_loadu_ps(x + b * stride + i + 8 * part);
            ECQ_UNROLL
            for (std::size_t row = 0; row < Rows; ++row) {
              sum[row][b] = _mm256_fmadd_ps(values[row], some, sum[row][b]);
            }
          }
        }
      }
      if (scales[0] == nullptr) return add_lanes<Rows, Batch>(sum, sums, sum_stride);
      ECQ_UNROLL
      for (std::size_t row = 0; row < Rows; ++row) {
        const __m256 scale = _mm256_set1_ps(static_cast<float>(scales[row][run.number]));
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          float* const to = scaled.of(row, b);
          const __m256 before = run.is_first() ? _mm256_setzero_ps() : _mm256_load_ps(to);
          _mm256_store_ps(to, _mm256_fmadd_ps(sum[row][b], scale, before));
        }
      }
    }
    __m256 sum[Rows][Batch];
    ECQ_UNROLL
    for (std::size_t i = 0; i < Rows * Batch; ++i) sum[i / Batch][i % Batch] = _mm256_load_ps(scaled.of(0, i));
    add_lanes<Rows, Batch>(sum, sums, sum_stride);
  }

 private:
  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void add_lanes(const __m256 (&sum)[Rows][Batch], float* sums, std::size_t stride) {
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) sums[row * stride + b] += sum_of_lanes(sum[row][b]);
    }
  }
};

}  // namespace ecq::detail::avx2

#endif
