#pragma once
/// \file
/// XXH64 of four inputs side by side: a single input is a chain of multiplications that leaves a core mostly idle.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/prefetch.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Loads 32 bytes of one input and 32 of another.
ECQ_AVX512 inline __m512i load_pair(const std::byte* first, const std::byte* second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first))),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), 1);
}

ECQ_AVX512 inline __m512i xxh64_round(__m512i accumulator, __m512i lane, __m512i prime0, __m512i prime1) {
  const __m512i sum = _mm512_add_epi64(accumulator, _mm512_mullo_epi64(lane, prime1));
  return _mm512_mullo_epi64(_mm512_rol_epi64(sum, 31), prime0);
}

/// Adds `stripes` stripes of 32 bytes from each of four inputs to the accumulators of that input.
ECQ_AVX512 inline void xxh64_stripes(const std::uint64_t (&prime)[5], std::uint64_t (&accumulators)[4][4],
                                     const std::byte* const (&inputs)[4], std::size_t stripes) {
  constexpr std::size_t ahead = 2048;  // bytes; the hardware does not prefetch four streams by itself
  const __m512i prime0 = _mm512_set1_epi64(static_cast<long long>(prime[0]));
  const __m512i prime1 = _mm512_set1_epi64(static_cast<long long>(prime[1]));
  __m512i first = _mm512_loadu_si512(accumulators[0]);
  __m512i second = _mm512_loadu_si512(accumulators[2]);
  const std::byte* from[4] = {inputs[0], inputs[1], inputs[2], inputs[3]};
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    ECQ_UNROLL
    for (const std::byte* const input : from) prefetch<1>(input, ahead);
    first = xxh64_round(first, load_pair(from[0], from[1]), prime0, prime1);
    second = xxh64_round(second, load_pair(from[2], from[3]), prime0, prime1);
    ECQ_UNROLL
    for (const std::byte*& input : from) input += 32;
  }
  _mm512_storeu_si512(accumulators[0], first);
  _mm512_storeu_si512(accumulators[2], second);
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
