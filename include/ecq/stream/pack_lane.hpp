#pragma once
/// \file
/// Packing of raw bits by the lanes of a warp. Each lane packs those of 32 elements, which fill whole words. The bits
/// are the same as those of pack_raw_bits().

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// Number of elements that a lane packs at once.
inline constexpr std::uint32_t pack_elements = 32;

namespace detail {

/// Stands for a number of raw bits that is not a compile-time constant.
inline constexpr unsigned any_bits = ~0U;

/// Operations on all elements of a word: arranged() arranges them, and low() moves the low `bits` of each next to one
/// another.
template <element_split Split>
struct packed_word {
  static constexpr unsigned width = element_bits<Split>;
  static constexpr unsigned elements = 32 / width;

  static ECQ_HOST_DEVICE constexpr std::uint32_t arranged(std::uint32_t word) {
    if (Split::id != symbol_map_id::exponent) return word;
    if (width == 32) return (word << 1) | (word >> 31);
    constexpr std::uint32_t lowest = width == 16 ? 0x00010001U : 0x01010101U;
    return ((word << 1) & ~lowest) | ((word >> (width - 1)) & lowest);
  }

  static ECQ_HOST_DEVICE constexpr std::uint32_t low(std::uint32_t word, unsigned bits) {
    if (bits == width) return word;
    const std::uint32_t mask = (1U << bits) - 1U;
    if (width == 32) return word & mask;
    if (width == 16) return (word & mask) | ((word & (mask << 16)) >> (16 - bits));
    word &= mask * 0x01010101U;
    word = (word & 0x00FF00FFU) | ((word & 0xFF00FF00U) >> (8 - bits));
    return (word & 0xFFFFU) | ((word & 0xFFFF0000U) >> (16 - 2 * bits));
  }
};

template <thread_memory Memory, element_split Split, unsigned Bits>
ECQ_HOST_DEVICE void pack_whole(const std::byte* elements, unsigned raw_bits, std::byte* to) {
  using word = packed_word<Split>;
  const unsigned bits = Bits == any_bits ? raw_bits : Bits;
  std::uint64_t pending = 0;
  unsigned filled = 0;
  unsigned made = 0;
  std::uint32_t four[4];
  ECQ_UNROLL
  for (unsigned vector = 0; vector < pack_elements * element_bits<Split> / 128; ++vector) {
    std::uint32_t in[4];
    Memory::load_16_bytes(elements + std::size_t{16} * vector, in);
    ECQ_UNROLL
    for (const std::uint32_t elements_of_word : in) {
      pending |= std::uint64_t{word::low(word::arranged(elements_of_word), bits)} << filled;
      filled += word::elements * bits;
      if (filled < 32) continue;
      if constexpr (Bits != any_bits && Bits % 4 == 0) {
        four[made % 4] = static_cast<std::uint32_t>(pending & 0xFFFFFFFFU);
        if (made % 4 == 3) Memory::store_16_bytes(to + std::size_t{4} * (made - 3), four);
      } else {
        Memory::store(to + std::size_t{4} * made, static_cast<std::uint32_t>(pending & 0xFFFFFFFFU));
      }
      ++made;
      pending >>= 32;
      filled -= 32;
    }
  }
}

template <thread_memory Memory, element_split Split>
ECQ_HOST_DEVICE void pack_some(const std::byte* elements, std::uint32_t count, unsigned bits, std::byte* to) {
  using element = typename Split::element;
  std::uint64_t pending = 0;
  unsigned filled = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t value = Memory::template load<element>(elements + sizeof(element) * i);
    // The word holds a single element; the mask clears all bits above it.
    value = packed_word<Split>::arranged(value) & (0xFFFFFFFFU >> (32 - element_bits<Split>));
    pending |= std::uint64_t{packed_word<Split>::low(value, bits)} << filled;
    for (filled += bits; filled >= 8; filled -= 8, pending >>= 8) *to++ = static_cast<std::byte>(pending & 0xFFU);
  }
  if (filled > 0) *to = static_cast<std::byte>(pending & 0xFFU);
}

}  // namespace detail

/// Packs the low `bits` (1 .. element_bits) bits of `count` (0..32) arranged elements. `elements` is aligned to 16
/// bytes, and `to` to 4. If `bits` is element_bits<Split> or low_bits<Split>, `to` is aligned to as many bytes as the
/// size of the bits of 32 elements allows, 16 at most.
template <thread_memory Memory, element_split Split>
ECQ_HOST_DEVICE void pack_by_lane(const std::byte* elements, std::uint32_t count, unsigned bits, std::byte* to) {
  if (count < pack_elements) {
    detail::pack_some<Memory, Split>(elements, count, bits, to);
  } else if (bits == low_bits<Split>) {
    if constexpr (low_bits<Split> != 0) detail::pack_whole<Memory, Split, low_bits<Split>>(elements, bits, to);
  } else if (bits == element_bits<Split>) {
    detail::pack_whole<Memory, Split, element_bits<Split>>(elements, bits, to);
  } else {
    detail::pack_whole<Memory, Split, detail::any_bits>(elements, bits, to);
  }
}

}  // namespace ecq
