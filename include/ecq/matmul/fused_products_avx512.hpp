#pragma once
/// \file
/// Dot products with AVX-512 in the registers in which weights are decoded. Weights are never stored.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ecq/format/bf16.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"
#include "ecq/matmul/fusion.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Products of a chunk: one sum for each row of W of which it has weights, or for each scale of these rows.
struct product_cursor : row_walk {
  float* sums = nullptr;         ///< next sum
  const bf16* scales = nullptr;  ///< scales from the next block_of_scale weights on; null: sums have no scale
  alignas(64) float partial[16] = {};
  alignas(64) float scaled[16] = {};  ///< sums of blocks, multiplied by their scales

  /// Stores the sum and begins the next one.
  ECQ_AVX512 void end_sum() {
    float* const all = scales != nullptr ? scaled : partial;
    *sums++ = _mm512_reduce_add_ps(_mm512_load_ps(all));
    _mm512_store_ps(all, _mm512_setzero_ps());
  }

  /// Multiplies the sums of a group of weights in the order of place_in_rounds() by the scales of its blocks. Lanes of
  /// a decoder lie side by side in a sum, so a group of two blocks has one in each half.
  template <std::size_t Weights>
  ECQ_AVX512 [[gnu::always_inline]] inline void scale_group(__m512 sum) {
    constexpr std::size_t blocks = Weights / block_of_scale;
    static_assert(blocks == 1 || blocks == 2);
    std::uint32_t bits = 0;
    std::memcpy(&bits, scales, blocks * sizeof(bf16));
    const __m512i both = _mm512_set1_epi32(static_cast<int>(bits));
    const __mmask16 first_block = blocks == 1 ? 0xFFFF : 0x00FF;
    const __m512i values = _mm512_mask_slli_epi32(both, first_block, both, 16);
    const __m512 factors = _mm512_castsi512_ps(_mm512_and_si512(values, _mm512_set1_epi32(-65536)));
    _mm512_store_ps(scaled, _mm512_fmadd_ps(sum, factors, _mm512_load_ps(scaled)));
    scales += blocks;
  }
};

/// 32 BF16 values, aligned to 64 bytes.
typedef __m512bh halves_in_memory [[gnu::may_alias]];  // NOLINT(modernize-use-using): an alias drops the attribute

template <class Activation>
struct product_target;

/// Products of chunks that are decoded side by side (matmul/round_sinks_avx512.hpp).
template <class Activation, std::size_t Weights>
struct round_products {
  /// A step that adds to sums of FP32 takes so many operations that four chunks hide its latency, and all their data
  /// stays in registers.
  static constexpr std::size_t together = std::is_same_v<Activation, float> ? 4 : weight_chunks;

  ECQ_AVX512 round_products(std::size_t first, const product_target<Activation>& target)
      : row(target.row), to(target.to + first) {
    for (std::size_t c = 0; c < together; ++c) {
      x[c] = row.x + to[c]->column;
      sum[c] = _mm512_load_ps(to[c]->partial);
    }
  }

  /// Returns the number of groups until any chunk comes to the end of a sum.
  std::size_t run() const {
    std::size_t least = to[0]->groups;
    for (std::size_t c = 1; c < together; ++c) least = (std::min)(least, to[c]->groups);
    return least;
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t c, std::size_t i, __m512i halves) {
    if constexpr (std::is_same_v<Activation, float>) {
      sum[c] = _mm512_fmadd_ps(first_values(halves), _mm512_loadu_ps(x[c] + 32 * i), sum[c]);
      sum[c] = _mm512_fmadd_ps(second_values(halves), _mm512_loadu_ps(x[c] + 32 * i + 16), sum[c]);
    } else {
      // Read with its own type: GCC 12 would store an operand that is cast, and read it again.
      sum[c] = _mm512_dpbf16_ps(sum[c], reinterpret_cast<__m512bh>(halves),
                                *reinterpret_cast<const halves_in_memory*>(x[c] + 32 * i));
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline void end(std::size_t c) {
    x[c] += Weights;
    if (to[c]->scales == nullptr) return;
    to[c]->template scale_group<Weights>(sum[c]);
    sum[c] = _mm512_setzero_ps();
  }

  /// Advances by `count` groups and ends the sums that end there.
  ECQ_AVX512 [[gnu::always_inline]] inline void end_run(std::size_t count) {
    for (std::size_t c = 0; c < together; ++c) {
      product_cursor& at = *to[c];
      if (!at.advance(row, Weights, count)) continue;
      leave(c);
      at.end_sum();
      sum[c] = _mm512_setzero_ps();
      x[c] = row.x + at.column;
    }
  }

  /// Stores the sum that has not ended in the cursor.
  ECQ_AVX512 [[gnu::always_inline]] inline void leave(std::size_t c) const { _mm512_store_ps(to[c]->partial, sum[c]); }

  const product_row<Activation>& row;
  product_cursor* const* to;
  const Activation* x[together];
  __m512 sum[together];
};

/// Target of weights that multiplies them by activations of FP32 or BF16 (product_row).
template <class Activation>
struct product_target {
  static constexpr std::size_t together = 8;
  template <std::size_t Weights>
  using rounds = round_products<Activation, Weights>;

  struct group {
    ECQ_AVX512 [[gnu::always_inline]] inline group(const product_target& target, std::size_t c)
        : at(*target.to[c]),
          x(target.row.x + at.column),
          plain(target.row.plain + at.column),
          sum{_mm512_load_ps(at.partial), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()} {}

    ECQ_AVX512 [[gnu::always_inline]] inline void take(std::size_t i, __m512i halves) {
      if constexpr (std::is_same_v<Activation, float>) {
        __m512& first = sum[i % 2 * 2];
        __m512& second = sum[i % 2 * 2 + 1];
        first = _mm512_fmadd_ps(first_values(halves), _mm512_loadu_ps(x + 32 * i), first);
        second = _mm512_fmadd_ps(second_values(halves), _mm512_loadu_ps(x + 32 * i + 16), second);
      } else {
        sum[i % 4] = add_half_products(sum[i % 4], halves, _mm512_loadu_si512(x + 32 * i));
      }
    }

    void escape(unsigned place, std::uint16_t half) {
      rare += std::bit_cast<float>(std::uint32_t{half} << 16) * plain[place];
    }

    product_cursor& at;
    const Activation* x;
    const float* plain;
    __m512 sum[4];  // four sums that do not wait for each other
    float rare = 0;
  };

  template <std::size_t Weights>
  ECQ_AVX512 [[gnu::always_inline]] inline void advance(std::size_t, group& done) const {
    product_cursor& at = done.at;
    const __m512 rare = _mm512_maskz_mov_ps(1, _mm512_set1_ps(done.rare));
    const __m512 all = _mm512_add_ps(_mm512_add_ps(done.sum[0], done.sum[1]), _mm512_add_ps(done.sum[2], done.sum[3]));
    _mm512_store_ps(at.partial, _mm512_add_ps(all, rare));
    if (at.advance(row, Weights)) at.end_sum();
  }

  product_row<Activation> row;
  product_cursor* to[weight_chunks];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
