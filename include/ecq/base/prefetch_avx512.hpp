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

/// Offset at which encoders prefetch codes: they go through a chunk from its end, so it is eight groups before their
/// position.
inline constexpr std::size_t codes_prefetched = std::size_t{0} - 8 * group_symbols;

/// Prefetches `Lines` cache lines that start `ahead` bytes after `from`. Nothing needs to be there: the place is an
/// address, not a pointer.
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
