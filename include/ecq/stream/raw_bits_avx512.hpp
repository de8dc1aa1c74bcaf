#pragma once
/// \file
/// Packing of raw bits with PEXT, which is fast on machines with AVX-512.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ecq::detail {

ECQ_AVX512 inline std::size_t pack_raw_bits_avx512(unsigned bits, const std::byte* codes, std::size_t count,
                                                   std::byte* to) {
  const std::uint64_t mask = 0x0101010101010101U * ((1U << bits) - 1U);
  std::size_t at = 0;
  // Each store writes eight bytes, of which only the first `bits` count. The loop ends where not all eight lie within
  // the output.
  for (; (count - at) / 8 * bits >= 8; at += 8, to += bits) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes + at, 8);
    eight = _pext_u64(eight, mask);
    std::memcpy(to, &eight, 8);
  }
  return at;
}

}  // namespace ecq::detail

#endif
