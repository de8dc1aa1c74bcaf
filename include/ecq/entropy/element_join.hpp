#pragma once
/// \file
/// How symbols and raw bits become elements again, described by values that joining kernels read.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// How to join an element: element = restore(symbol << low_bits | raw), where restore rotates right by `turned` bits.
struct element_join {
  std::size_t width = 1;  ///< bytes of an element: 1, 2 or 4
  unsigned low_bits = 0;  ///< bits of an arranged element below its symbol
  unsigned bits = 0;      ///< raw bits of each element: low_bits, or more if the coder leaves bits of the symbol raw
  unsigned turned = 0;    ///< 0 or 1

  template <element_split Split>
  static constexpr element_join of(unsigned bits) noexcept {
    return {sizeof(typename Split::element), ecq::low_bits<Split>, bits,
            Split::id == symbol_map_id::exponent ? 1U : 0U};
  }
};

/// Where the elements of one chunk go. Symbols that are not joined yet take the last bytes of the same memory, one byte
/// each, so joining from the front never overtakes them.
struct element_target {
  const std::byte* raw = nullptr;  ///< the chunk's raw bits; stream_tail_bytes beyond their end may be read
  std::byte* elements = nullptr;
  std::uint32_t joined = 0;  ///< leading elements that are joined; the others are still symbols

  /// The address of symbol 0 in a chunk of `count` elements of `width` bytes.
  std::uint8_t* symbols(std::size_t width, std::size_t count) const noexcept {
    return reinterpret_cast<std::uint8_t*>(elements) + (width - 1) * count;
  }
};

}  // namespace ecq
