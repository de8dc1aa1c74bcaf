#pragma once
/// \file
/// Fetching memory ahead of where kernels read and write.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"

namespace ecq::detail {

/// Offset at which encoders prefetch codes: they go through a chunk from its end, so it is eight groups before their
/// position.
inline constexpr std::size_t codes_prefetched = std::size_t{0} - 8 * group_symbols;

/// How many bytes ahead decoders prefetch words and the memory of elements. They prefetch raw bits twice as far ahead,
/// except those of narrow pairs that are met in registers, which are few. The states keep the core busy, so memory is
/// free to deliver, but the hardware cannot prefetch so many streams by itself.
inline constexpr std::size_t prefetch_distance = 512;

/// Prefetches `Lines` cache lines that start `ahead` bytes after `from`. Nothing needs to be there: the place is an
/// address, not a pointer. Always inlined: GCC takes a function that only prefetches for one that does nothing, and
/// removes the calls of it.
template <std::size_t Lines>
[[gnu::always_inline]] inline void prefetch(const void* from, std::size_t ahead) {
  ECQ_UNROLL
  for (std::size_t line = 0; line != Lines; ++line) {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(from) + ahead + 64 * line;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read there that could be optimised
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
}

}  // namespace ecq::detail
