#pragma once
/// \file
/// Dot products of 8-bit codes and activations with AVX2. AVX2's own products of bytes (maddubs) saturate, since two
/// products 255 * 127 do not fit 16 bits. So bytes are widened, unless the processor has AVX-VNNI.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_groups_avx2.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx2 {

ECQ_AVX2 inline std::int32_t sum_of_integers(__m256i eight) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

/// Sets out[row * stride + b] to the sum of the lanes of lanes[row][b].
template <std::size_t Rows, std::size_t Batch>
ECQ_AVX2 [[gnu::always_inline]] inline void put_sums(const __m256i (&lanes)[Rows][Batch], std::int32_t* out,
                                                     std::size_t stride) {
  ECQ_UNROLL
  for (std::size_t row = 0; row < Rows; ++row) {
    ECQ_UNROLL
    for (std::size_t b = 0; b < Batch; ++b) out[row * stride + b] = sum_of_integers(lanes[row][b]);
  }
}

/// Adds the products of codes from number `first` on, too few for a register, to out[row * out_stride + b].
template <std::size_t Rows, std::size_t Batch>
inline void add_rest(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                     std::size_t stride, std::size_t first, std::size_t count, std::int32_t* out,
                     std::size_t out_stride) {
  if (first == count) return;
  for (std::size_t row = 0; row < Rows; ++row) {
    for (std::size_t b = 0; b < Batch; ++b) {
      for (std::size_t at = first; at < count; ++at) {
        const int code = std::to_integer<std::uint8_t>(codes[row * code_stride + at]) ^ flip;
        out[row * out_stride + b] += code * x[b * stride + at];
      }
    }
  }
}

/// Kernels of integer_dot.hpp for unsigned codes, which widen bytes.
struct wide_dots {
  static constexpr bool signed_codes = false;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                            std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if constexpr (Rows == 4) {  // AVX2 has 16 registers
      wide_dots::sums<2, Batch>(codes, code_stride, flip, x, stride, count, out, out_stride);
      wide_dots::sums<2, Batch>(codes + 2 * code_stride, code_stride, flip, x, stride, count, out + 2 * out_stride,
                                out_stride);
    } else {
      const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
      __m256i lanes[Rows][Batch] = {};
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
            lanes[row][b] = _mm256_add_epi32(lanes[row][b], _mm256_madd_epi16(of_rows[row], some));
          }
        }
      }
      put_sums(lanes, out, out_stride);
      add_rest<Rows, Batch>(codes, code_stride, flip, x, stride, i, count, out, out_stride);
    }
  }
};

/// Kernels of integer_dot.hpp for codes and activations that are 16-bit words already.
struct word_dots {
  static constexpr bool signed_codes = true;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int16_t* x,
                            std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if constexpr (Rows == 4 && Batch > 2) {
      word_dots::sums<2, Batch>(codes, code_stride, flip, x, stride, count, out, out_stride);
      word_dots::sums<2, Batch>(codes + 2 * code_stride, code_stride, flip, x, stride, count, out + 2 * out_stride,
                                out_stride);
    } else {
      __m256i lanes[Rows][Batch] = {};
      for (std::size_t i = 0; i < count; i += 16) {
        __m256i of_rows[Rows];
        ECQ_UNROLL
        for (std::size_t row = 0; row < Rows; ++row) of_rows[row] = load(codes + row * code_stride + 2 * i);
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          const __m256i some = load(x + b * stride + i);
          ECQ_UNROLL
          for (std::size_t row = 0; row < Rows; ++row) {
            lanes[row][b] = _mm256_add_epi32(lanes[row][b], _mm256_madd_epi16(of_rows[row], some));
          }
        }
      }
      put_sums(lanes, out, out_stride);
    }
  }
};

/// Returns lanes of sums + four products of codes and activations, like _mm256_dpbusd_avx_epi32. In assembly, it needs
/// no other target than AVX2.
ECQ_AVX2 [[gnu::always_inline]] inline __m256i plus_dots(__m256i sums, __m256i codes, __m256i x) {
#if ECQ_AVX512_EMULATED
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0xFF)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
  return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
#else
  __asm__("%{vex%} vpdpbusd {%2, %1, %0|%0, %1, %2}" : "+x"(sums) : "x"(codes), "x"(x));
  return sums;
#endif
}

/// Kernels of integer_dot.hpp for unsigned codes, by AVX-VNNI (machine_has_integer_dots_avx2()).
struct byte_dots {
  static constexpr bool signed_codes = false;

  template <std::size_t Rows, std::size_t Batch>
  static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                   std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if (flip == 0) return sums_of<false, Rows, Batch>(codes, code_stride, x, stride, count, out, out_stride);
    sums_of<true, Rows, Batch>(codes, code_stride, x, stride, count, out, out_stride);
  }

 private:
  template <bool Flip, std::size_t Rows, std::size_t Batch>
  ECQ_AVX2 static void sums_of(const std::byte* codes, std::size_t code_stride, const std::int8_t* x,
                               std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if constexpr (Rows == 4 && Batch > 2) {
      sums_of<Flip, 2, Batch>(codes, code_stride, x, stride, count, out, out_stride);
      sums_of<Flip, 2, Batch>(codes + 2 * code_stride, code_stride, x, stride, count, out + 2 * out_stride, out_stride);
    } else {
      __m256i lanes[Rows][Batch] = {};
      std::size_t i = 0;
      for (; i + 32 <= count; i += 32) {
        __m256i of_rows[Rows];
        ECQ_UNROLL
        for (std::size_t row = 0; row < Rows; ++row) {
          const __m256i some = load(codes + row * code_stride + i);
          of_rows[row] = Flip ? _mm256_xor_si256(some, _mm256_set1_epi8(static_cast<char>(0x80))) : some;
        }
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          const __m256i some = load(x + b * stride + i);
          ECQ_UNROLL
          for (std::size_t row = 0; row < Rows; ++row) lanes[row][b] = plus_dots(lanes[row][b], of_rows[row], some);
        }
      }
      put_sums(lanes, out, out_stride);
      add_rest<Rows, Batch>(codes, code_stride, Flip ? 0x80 : 0, x, stride, i, count, out, out_stride);
    }
  }
};

}  // namespace ecq::detail::avx2

ECQ_KERNELS_END

#endif
