#pragma once
/// \file
/// Dot products with AVX-512.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns the sum of weights[i] * x[i].
ECQ_AVX512 inline float dot(const float* weights, const float* x, std::size_t count) {
  __m512 sums[4] = {};
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 4; ++part) {
      sums[part] =
          _mm512_fmadd_ps(_mm512_loadu_ps(weights + i + 16 * part), _mm512_loadu_ps(x + i + 16 * part), sums[part]);
    }
  }
  for (; i < count; i += 16) {
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xFFFFU, static_cast<unsigned>(count - i)));
    sums[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, weights + i), _mm512_maskz_loadu_ps(there, x + i), sums[0]);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

/// Adds dot() with each of four rows of activations, `stride` apart, to out[b].
ECQ_AVX512 inline void add_four_dots(const float* weights, const float* x, std::size_t stride, std::size_t count,
                                     float* out) {
  __m512 sums[8] = {};
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 2; ++part) {
      const __m512 some = _mm512_loadu_ps(weights + i + 16 * part);
      ECQ_UNROLL
      for (std::size_t b = 0; b < 4; ++b) {
        sums[4 * part + b] = _mm512_fmadd_ps(some, _mm512_loadu_ps(x + b * stride + i + 16 * part), sums[4 * part + b]);
      }
    }
  }
  for (; i < count; i += 16) {
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xFFFFU, static_cast<unsigned>(count - i)));
    const __m512 some = _mm512_maskz_loadu_ps(there, weights + i);
    for (std::size_t b = 0; b < 4; ++b) {
      sums[b] = _mm512_fmadd_ps(some, _mm512_maskz_loadu_ps(there, x + b * stride + i), sums[b]);
    }
  }
  for (std::size_t b = 0; b < 4; ++b) out[b] += _mm512_reduce_add_ps(_mm512_add_ps(sums[b], sums[4 + b]));
}

/// Adds dot() of each of four rows of weights, `weight_stride` apart, with each of four rows of activations, `stride`
/// apart, to out[row * out_stride + b].
ECQ_AVX512 inline void add_four_by_four_dots(const float* weights, std::size_t weight_stride, const float* x,
                                             std::size_t stride, std::size_t count, float* out,
                                             std::size_t out_stride) {
  __m512 sums[16] = {};
  for (std::size_t i = 0; i < count; i += 16) {
    const auto rest = static_cast<unsigned>((std::min)(count - i, std::size_t{16}));
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xFFFFU, rest));
    __m512 some[4];
    ECQ_UNROLL
    for (std::size_t b = 0; b < 4; ++b) some[b] = _mm512_maskz_loadu_ps(there, x + b * stride + i);
    ECQ_UNROLL
    for (std::size_t row = 0; row < 4; ++row) {
      const __m512 weight = _mm512_maskz_loadu_ps(there, weights + row * weight_stride + i);
      ECQ_UNROLL
      for (std::size_t b = 0; b < 4; ++b) sums[4 * row + b] = _mm512_fmadd_ps(weight, some[b], sums[4 * row + b]);
    }
  }
  ECQ_UNROLL
  for (std::size_t each = 0; each < 16; ++each) {
    out[each / 4 * out_stride + each % 4] += _mm512_reduce_add_ps(sums[each]);
  }
}

/// Look-up table of the values of 256 codes, in eight registers of 32 values.
class half_table {
 public:
  ECQ_AVX512 explicit half_table(const std::uint16_t* halves) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 8; ++part) parts_[part] = _mm512_load_si512(halves + 32 * part);
  }

  /// Returns the values of 32 codes. Each code is in 16 bits, of which the upper ones do not matter.
  ECQ_AVX512 __m512i operator()(__m512i codes) const {
    // A permutation of two registers reads six bits of a code; the other two choose among four.
    const __mmask32 bit_6 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(1 << 6));
    const __mmask32 bit_7 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(1 << 7));
    const __m512i low = _mm512_mask_blend_epi16(bit_6, _mm512_permutex2var_epi16(parts_[0], codes, parts_[1]),
                                                _mm512_permutex2var_epi16(parts_[2], codes, parts_[3]));
    const __m512i high = _mm512_mask_blend_epi16(bit_6, _mm512_permutex2var_epi16(parts_[4], codes, parts_[5]),
                                                 _mm512_permutex2var_epi16(parts_[6], codes, parts_[7]));
    return _mm512_mask_blend_epi16(bit_7, low, high);
  }

 private:
  __m512i parts_[8];
};

/// Returns the indices of 32 codes: code j in the lower half of lane j, code 16 + j in the upper half. first_values()
/// and second_values() turn the values found for them into FP32 in the order of the codes.
ECQ_AVX512 inline __m512i code_indices(const std::byte* codes) {
  const auto* const from = reinterpret_cast<const __m128i*>(codes);
  const __m512i first = _mm512_cvtepu8_epi32(_mm_loadu_si128(from));
  const __m512i second = _mm512_cvtepu8_epi32(_mm_loadu_si128(from + 1));
  return _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
}
ECQ_AVX512 inline __m512 first_values(__m512i found) { return _mm512_castsi512_ps(_mm512_slli_epi32(found, 16)); }
ECQ_AVX512 inline __m512 second_values(__m512i found) {
  return _mm512_castsi512_ps(_mm512_and_si512(found, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

/// Returns sum + the products of BF16 values, two of which go to each lane. Subnormal numbers count as 0.
ECQ_AVX512 [[gnu::always_inline]] inline __m512 add_half_products(__m512 sum, __m512i first, __m512i second) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(first), reinterpret_cast<__m512bh>(second));
}

/// Converts codes to their values; `count` is a multiple of 32. `halves` are the BF16 values of all codes, aligned to
/// 64 bytes.
ECQ_AVX512 inline void look_up(const std::uint16_t* halves, const std::byte* codes, std::size_t count, float* out) {
  const half_table values(halves);
  for (std::size_t i = 0; i < count; i += 32) {
    const __m512i found = values(code_indices(codes + i));
    _mm512_storeu_ps(out + i, first_values(found));
    _mm512_storeu_ps(out + i + 16, second_values(found));
  }
}

/// Returns the sum of (value of codes[i]) * x[i]; `count` is a multiple of 64.
ECQ_AVX512 inline float dot_codes(const std::uint16_t* halves, const std::byte* codes, const float* x,
                                  std::size_t count) {
  const half_table values(halves);
  __m512 sums[4] = {};
  for (std::size_t i = 0; i < count; i += 64) {
    ECQ_UNROLL
    for (std::size_t part = 0; part < 2; ++part) {
      const __m512i found = values(code_indices(codes + i + 32 * part));
      const float* const there = x + i + 32 * part;
      sums[2 * part] = _mm512_fmadd_ps(first_values(found), _mm512_loadu_ps(there), sums[2 * part]);
      sums[2 * part + 1] = _mm512_fmadd_ps(second_values(found), _mm512_loadu_ps(there + 16), sums[2 * part + 1]);
    }
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
