#pragma once
/// \file
/// Dot products of 8-bit codes and activations with AVX-512 and its dot products of bytes (VNNI).

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns the sums over the lanes of 16 vectors, in the order of the vectors.
ECQ_AVX512 inline __m512i sums_of_lanes(const __m512i (&of)[16]) {
  __m512i pairs[8], fours[4];
  ECQ_UNROLL
  for (std::size_t i = 0; i < 8; ++i) {
    pairs[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(of[2 * i], of[2 * i + 1]),
                                _mm512_unpackhi_epi32(of[2 * i], of[2 * i + 1]));
  }
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                                _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  }
  // Each quarter of fours[i] holds parts of the sums of vectors 4 i to 4 i + 3.
  const __m512i low =
      _mm512_add_epi32(_mm512_shuffle_i32x4(fours[0], fours[1], 0x88), _mm512_shuffle_i32x4(fours[0], fours[1], 0xDD));
  const __m512i high =
      _mm512_add_epi32(_mm512_shuffle_i32x4(fours[2], fours[3], 0x88), _mm512_shuffle_i32x4(fours[2], fours[3], 0xDD));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD));
}

/// Like _mm512_dpbusd_epi32, around which GCC moves sums from register to register; that costs a third of the speed.
ECQ_AVX512 [[gnu::always_inline]] inline __m512i plus_dots(__m512i sums, __m512i codes, __m512i x) {
#if ECQ_AVX512_EMULATED
  return _mm512_dpbusd_epi32(sums, codes, x);
#else
  __asm__("vpdpbusd {%2, %1, %0|%0, %1, %2}" : "+v"(sums) : "v"(codes), "v"(x));
  return sums;
#endif
}

/// Kernels of integer_dot.hpp for unsigned codes.
struct integer_dots {
  static constexpr bool signed_codes = false;

  template <std::size_t Rows, std::size_t Batch>
  static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                   std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    if (flip == 0) return sums_of<false, Rows, Batch>(codes, code_stride, x, stride, count, out, out_stride);
    sums_of<true, Rows, Batch>(codes, code_stride, x, stride, count, out, out_stride);
  }

 private:
  template <bool Flip, std::size_t Rows, std::size_t Batch>
  ECQ_AVX512_VNNI static void sums_of(const std::byte* codes, std::size_t code_stride, const std::int8_t* x,
                                      std::size_t stride, std::size_t count, std::int32_t* out,
                                      std::size_t out_stride) {
    __m512i lanes[Rows][Batch] = {};
    __m512i of_rows[Rows], some[Batch];
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) some[b] = _mm512_loadu_si512(x + b * stride + i);
      ECQ_UNROLL
      for (std::size_t row = 0; row < Rows; ++row) of_rows[row] = _mm512_loadu_si512(codes + row * code_stride + i);
      add_dots<Flip>(lanes, of_rows, some);
    }
    if (i < count) {
      // Masked loads cost an extra instruction, so only the last step uses them.
      const __mmask64 there = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count - i));
      for (std::size_t b = 0; b < Batch; ++b) some[b] = _mm512_maskz_loadu_epi8(there, x + b * stride + i);
      for (std::size_t row = 0; row < Rows; ++row) {
        of_rows[row] = _mm512_maskz_loadu_epi8(there, codes + row * code_stride + i);
      }
      add_dots<Flip>(lanes, of_rows, some);
    }
    __m512i all[16] = {};
    ECQ_UNROLL
    for (std::size_t each = 0; each < Rows * Batch; ++each) {
      all[each / Batch * 4 + each % Batch] = lanes[each / Batch][each % Batch];
    }
    alignas(64) std::int32_t totals[16];
    _mm512_store_si512(totals, sums_of_lanes(all));
    for (std::size_t row = 0; row < Rows; ++row) std::copy_n(totals + 4 * row, Batch, out + row * out_stride);
  }

  template <bool Flip, std::size_t Rows, std::size_t Batch>
  [[gnu::always_inline]] ECQ_AVX512_VNNI static void add_dots(__m512i (&lanes)[Rows][Batch],
                                                              const __m512i (&of_rows)[Rows],
                                                              const __m512i (&some)[Batch]) {
    ECQ_UNROLL
    for (std::size_t row = 0; row < Rows; ++row) {
      const __m512i flipped =
          Flip ? _mm512_xor_si512(of_rows[row], _mm512_set1_epi8(static_cast<char>(0x80))) : of_rows[row];
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) lanes[row][b] = plus_dots(lanes[row][b], flipped, some[b]);
    }
  }
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
