#pragma once
/// \file
/// How symbols and raw bits become elements again, by value: what kernels that join them need to know.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// element = restore(symbol << low_bits | raw), where restore turns right by `turned` bits.
struct element_join {
  std::size_t width = 1;  ///< bytes of an element: 1, 2 or 4
  unsigned low_bits = 0;  ///< of an arranged element, below its symbol
  unsigned bits = 0;      ///< raw ones of each element: low_bits or, where the coder leaves some of the symbol's, more
  unsigned turned = 0;    ///< 0 or 1

  template <element_split Split>
  static constexpr element_join of(unsigned bits) noexcept {
    return {sizeof(typename Split::element), ecq::low_bits<Split>, bits,
            Split::id == symbol_map_id::exponent ? 1U : 0U};
  }
};

/// Where the elements of one chunk go. Symbols that are not joined yet take the last bytes of the same room, one each:
/// joining from the front then never overtakes them.
struct element_target {
  const std::byte* raw = nullptr;  ///< the chunk's raw bits, of which stream_tail_bytes beyond the end may be read
  std::byte* elements = nullptr;
  std::uint32_t joined = 0;  ///< leading elements that are there; of the others there are symbols

  /// Of symbol 0 in a chunk of `count`.
  std::uint8_t* symbols(std::size_t width, std::size_t count) const noexcept {
    return reinterpret_cast<std::uint8_t*>(elements) + (width - 1) * count;
  }
};

}  // namespace ecq
