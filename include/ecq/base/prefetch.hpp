#pragma once
/// \file
/// Prefetching of memory that kernels are about to read or write.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"

namespace ecq::detail {

/// Offset from an encoder's position at which it prefetches codes: eight groups back, because encoders go through a
/// chunk from its end.
inline constexpr std::size_t codes_prefetched = std::size_t{0} - 8 * group_symbols;

/// Number of bytes ahead at which decoders prefetch words and the memory of elements. They prefetch raw bits twice as
/// far ahead, except the few raw bits of narrow pairs that are looked up in registers. The states keep the core busy,
/// so memory is free to deliver, but the hardware cannot prefetch so many streams by itself.
inline constexpr std::size_t prefetch_distance = 512;

/// Prefetches `Lines` cache lines that start `ahead` bytes after `from`. The memory need not exist: the place is an
/// address, not a pointer. Always inlined, because GCC takes a function that only prefetches for one without effect and
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
