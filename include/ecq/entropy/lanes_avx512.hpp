#pragma once
/// \file
/// Helpers of AVX-512 kernels of all coders: orders of lanes, and the order in which compilers place steps.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns the lane numbers first, first + step, ... in 32 16-bit lanes.
ECQ_AVX512 inline __m512i every(std::uint16_t first, std::uint16_t step) {
  std::uint16_t lanes[32];
  for (std::uint16_t i = 0; i < 32; ++i) lanes[i] = static_cast<std::uint16_t>(first + i * step);
  return _mm512_loadu_si512(lanes);
}

/// Returns the lane numbers first, 32 + first, first + 1, 32 + first + 1, ..., which interleave half of two registers
/// of 16-bit lanes.
ECQ_AVX512 inline __m512i interleaved(std::uint16_t first) {
  std::uint16_t lanes[32];
  for (std::uint16_t i = 0; i < 16; ++i) {
    lanes[2 * i] = static_cast<std::uint16_t>(first + i);
    lanes[2 * i + 1] = static_cast<std::uint16_t>(first + i + 32);
  }
  return _mm512_loadu_si512(lanes);
}

/// Makes clang compute all four values before anything uses one of them. Otherwise it would put the next step of a
/// chunk right behind the one that it waits for, where a core finds nothing else to do.
ECQ_AVX512 [[gnu::always_inline]] inline void compute_first([[maybe_unused]] __m512i& a, [[maybe_unused]] __m512i& b,
                                                            [[maybe_unused]] __m512i& c, [[maybe_unused]] __m512i& d) {
#if defined(__clang__) && !ECQ_AVX512_EMULATED
  __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d));
#endif
}

/// Makes clang compute the values of four or eight chunks before anything uses one of them.
template <std::size_t Chunks>
ECQ_AVX512 [[gnu::always_inline]] inline void compute_first([[maybe_unused]] __m512i (&chunks)[Chunks]) {
#if defined(__clang__) && !ECQ_AVX512_EMULATED
  static_assert(Chunks == 4 || Chunks == 8);
  if constexpr (Chunks == 4) {
    __asm__("" : "+v"(chunks[0]), "+v"(chunks[1]), "+v"(chunks[2]), "+v"(chunks[3]));
  } else {
    __asm__(""
            : "+v"(chunks[0]), "+v"(chunks[1]), "+v"(chunks[2]), "+v"(chunks[3]), "+v"(chunks[4]), "+v"(chunks[5]),
              "+v"(chunks[6]), "+v"(chunks[7]));
  }
#endif
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
