#pragma once
/// \file
/// Vectors whose elements begin at a cache line.

#include <cstddef>
#include <limits>
#include <vector>

#include "ecq/base/out_of_memory.hpp"

namespace ecq::detail {

/// Allocator of memory that is aligned to 64 bytes. System allocators place large blocks 16 bytes after a multiple of
/// 64, where each load of 64 bytes takes two cache lines.
template <class Element>
struct line_allocator {
  using value_type = Element;

  line_allocator() = default;
  template <class Other>
  constexpr line_allocator(const line_allocator<Other>&) noexcept {}  // NOLINT: allocators convert to each other

  Element* allocate(std::size_t count) {
    if (count > (std::numeric_limits<std::size_t>::max)() / sizeof(Element)) run_out_of_memory();
    return static_cast<Element*>(::operator new(count * sizeof(Element), line));
  }
  void deallocate(Element* memory, std::size_t) noexcept { ::operator delete(memory, line); }

  bool operator==(const line_allocator&) const = default;

 private:
  static constexpr std::align_val_t line{64};
};

template <class Element>
using line_vector = std::vector<Element, line_allocator<Element>>;

}  // namespace ecq::detail
