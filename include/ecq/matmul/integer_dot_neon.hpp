#pragma once
/// \file
/// Dot products of 8-bit codes and activations with the dot products of bytes of 64-bit Arm (dotprod).

#include "ecq/base/config.hpp"

#if ECQ_NEON_DOT

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace ecq::detail::neon {

/// Kernels of integer_dot.hpp for signed codes.
struct integer_dots {
  static constexpr bool signed_codes = true;

  template <std::size_t Rows, std::size_t Batch>
  ECQ_NEON_DOT_TARGET static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip,
                                       const std::int8_t* x, std::size_t stride, std::size_t count, std::int32_t* out,
                                       std::size_t out_stride) {
    const int8x16_t flips = vreinterpretq_s8_u8(vdupq_n_u8(flip));
    int32x4_t lanes[Rows * Batch] = {};
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
      int8x16_t some[Batch];
      ECQ_UNROLL
      for (std::size_t b = 0; b < Batch; ++b) some[b] = vld1q_s8(x + b * stride + i);
      ECQ_UNROLL
      for (std::size_t row = 0; row < Rows; ++row) {
        const auto* const from = reinterpret_cast<const std::int8_t*>(codes + row * code_stride + i);
        const int8x16_t of_row = veorq_s8(vld1q_s8(from), flips);
        ECQ_UNROLL
        for (std::size_t b = 0; b < Batch; ++b) {
          lanes[row * Batch + b] = vdotq_s32(lanes[row * Batch + b], of_row, some[b]);
        }
      }
    }
    for (std::size_t row = 0; row < Rows; ++row) {
      for (std::size_t b = 0; b < Batch; ++b) {
        std::int32_t sum = vaddvq_s32(lanes[row * Batch + b]);
        for (std::size_t at = i; at < count; ++at) {
          const auto code =
              static_cast<std::int8_t>(std::to_integer<std::uint8_t>(codes[row * code_stride + at]) ^ flip);
          sum += code * x[b * stride + at];
        }
        out[row * out_stride + b] = sum;
      }
    }
  }
};

}  // namespace ecq::detail::neon

#endif
