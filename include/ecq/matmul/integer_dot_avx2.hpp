#pragma once
/// \file
/// Dot products of codes and activations of 8 bits with AVX2. Products of bytes (maddubs) saturate: two of 255 * 127 do
/// not fit 16 bits. So bytes are widened first.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

/// The kernels of integer_dot.hpp, for unsigned codes. Four rows are taken in twos, since AVX2 has 16 registers.
struct integer_dots {
  static constexpr bool signed_codes = false;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                            std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if constexpr (Rows == 4) {
      integer_dots::sums<2, Batch>(codes, code_stride, flip, x, stride, count, out, out_stride);
      integer_dots::sums<2, Batch>(codes + 2 * code_stride, code_stride, flip, x, stride, count, out + 2 * out_stride,
                                   out_stride);
    } else {
      const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
      __m256i lanes[Rows * Batch] = {};
      std::size_t i = 0;
      for (; i + 16 <= count; i += 16) {
        __m256i of_rows[Rows];
        ECQ_UNROLL
        for (std::size_t row = 0; row < Rows; ++row) {
          const auto* const from = reinterpret_cast<const __m128i*>(codes + row * code_stride + i);
          of_rows[row] = _mm256_cvtepu8_epi16(_mm_xor_si128(_mm_loadu_si128(from), flips));
        }
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          const auto* const from = reinterpret_cast<const __m128i*>(x + b * stride + i);
          const __m256i some = _mm256_cvtepi8_epi16(_mm_loadu_si128(from));
          ECQ_UNROLL
          for (std::size_t row = 0; row < Rows; ++row) {
            lanes[row * Batch + b] = _mm256_add_epi32(lanes[row * Batch + b], _mm256_madd_epi16(of_rows[row], some));
          }
        }
      }
      for (std::size_t row = 0; row < Rows; ++row) {
        for (std::size_t b = 0; b < Batch; ++b) {
          const __m256i eight = lanes[row * Batch + b];
          __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
          four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
          four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
          std::int32_t sum = _mm_cvtsi128_si32(four);
          for (std::size_t at = i; at < count; ++at) {
            sum += static_cast<std::int32_t>(std::to_integer<std::uint8_t>(codes[row * code_stride + at]) ^ flip) *
                   x[b * stride + at];
          }
          out[row * out_stride + b] = sum;
        }
      }
    }
  }
};

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
