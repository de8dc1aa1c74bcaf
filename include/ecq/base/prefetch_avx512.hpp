#pragma once
/// \file
/// Fetching memory ahead of where kernels read and write.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"

namespace ecq::detail::avx512 {

/// Where encoders fetch codes from: they go through a chunk from its end, eight groups in front of where they are.
inline constexpr std::size_t codes_prefetched = std::size_t{0} - 8 * group_symbols;

/// Fetches `Lines` cache lines from `ahead` bytes behind `from` on, whether anything is there or not: an address, no
/// pointer.
template <std::size_t Lines>
ECQ_AVX512 inline void prefetch(const void* from, std::size_t ahead) {
  ECQ_UNROLL
  for (std::size_t line = 0; line != Lines; ++line) {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(from) + ahead + 64 * line;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read there that could be optimised
    _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
  }
}

}  // namespace ecq::detail::avx512

#endif
