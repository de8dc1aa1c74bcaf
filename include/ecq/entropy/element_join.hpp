#pragma once
/// \file
/// Rules for joining symbols and raw bits into elements, as values that joining kernels read.

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// Rule for a join: element = restore(symbol << low_bits | raw), where restore rotates right by `turned` bits.
struct element_join {
  std::size_t width = 1;  ///< bytes of an element: 1, 2 or 4
  unsigned low_bits = 0;  ///< bits of an arranged element below its symbol
  unsigned bits = 0;      ///< raw bits of each element: low_bits, or more if the coder leaves bits of the symbol raw
  unsigned turned = 0;    ///< 0 or 1
  /// If not null, symbols are pairs of codes of one byte: each code is a symbol of this list plus raw bits, modulo 256.
  const nibble_list* pairs = nullptr;

  template <element_split Split>
  static constexpr element_join of(unsigned bits) noexcept {
    return {sizeof(typename Split::element), ecq::low_bits<Split>, bits, Split::id == symbol_map_id::exponent ? 1U : 0U,
            nullptr};
  }
};

/// Destination of the elements of one chunk. Symbols that are not joined yet take the last bytes of the same memory,
/// one byte each, so joining from the front never overtakes them. So do pairs, one byte for two elements.
struct element_target {
  const std::byte* raw = nullptr;  ///< the chunk's raw bits; stream_tail_bytes beyond their end may be read
  std::byte* elements = nullptr;
  std::uint32_t joined = 0;               ///< leading elements that are joined; the others are still symbols
  std::uint8_t* pairs = nullptr;          ///< for a chunk in pairs: where pair 0 goes if it is not joined
  const std::byte* escape = nullptr;      ///< for a chunk in pairs: the first escape that no joined element has taken
  const std::byte* escape_end = nullptr;  ///< stream_tail_bytes beyond it may be read

  /// Returns the address of symbol 0 in a chunk of `count` elements of `width` bytes, or of pair 0 for a chunk in
  /// pairs.
  std::uint8_t* symbols(std::size_t width, std::size_t count) const noexcept {
    if (pairs != nullptr) return pairs;
    return reinterpret_cast<std::uint8_t*>(elements) + (width - 1) * count;
  }
};

namespace detail {

/// Kernels of an instruction set that join `count` symbols, a multiple of 64, with their raw bits.
struct join_kernels {
  using kernel = void(const element_join& join, const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                      std::byte* to);

  kernel* bytes;  ///< elements of one byte with up to 7 raw bits
  kernel* bf16;   ///< two bytes, of which 8 bits are raw
  kernel* two;    ///< two bytes with up to 15 raw bits
  kernel* four;   ///< four bytes with up to 25 raw bits

  /// Returns the kernel for elements of `join`, or null.
  constexpr kernel* of(const element_join& join) const noexcept {
    if (join.width == 1 && join.bits < 8) return bytes;
    if (join.width == 2 && join.low_bits == 8 && join.bits == 8) return bf16;
    if (join.width == 2 && join.bits < 16) return two;
    return join.width == 4 && join.bits <= 25 ? four : nullptr;
  }
};

}  // namespace detail

}  // namespace ecq
