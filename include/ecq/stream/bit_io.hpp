#pragma once
/// \file
/// Conversion between elements and their symbols and raw bits. Raw bits are stored element after element, least
/// significant bit first.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/join_elements.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/limits.hpp"
#include "ecq/stream/raw_bits.hpp"

namespace ecq {

namespace detail {

/// Number of elements handled at a time. It is a constant, so that the loops over elements are vectorised, and a
/// multiple of 8, so that the raw bits of every run begin at a byte boundary.
inline constexpr std::size_t elements_per_run = 64;

/// Calls `use(first, count)` for each run of elements. Always inlined, so that the count is a compile-time constant for
/// all runs but the last.
template <class Use>
[[gnu::always_inline]] inline void for_each_run(std::size_t count, Use&& use) {
  std::size_t at = 0;
  for (; count - at >= elements_per_run; at += elements_per_run) use(at, elements_per_run);
  if (at < count) use(at, count - at);
}

}  // namespace detail

/// Writes the symbols of `count` elements, which may lie at any address, to `symbols`.
template <element_split Split>
void extract_symbols(const std::byte* elements, std::size_t count, std::uint8_t* symbols) {
  using element = typename Split::element;
  detail::for_each_run(count, [&](std::size_t first, std::size_t run) {
    std::uint8_t found[detail::elements_per_run];
    for (std::size_t i = 0; i < run; ++i) {
      element value;
      std::memcpy(&value, elements + (first + i) * sizeof value, sizeof value);
      found[i] = static_cast<std::uint8_t>(Split::arrange(value) >> low_bits<Split>);
    }
    std::memcpy(symbols + first, found, run);
  });
}

/// Writes the low `bits` (0 .. element_bits) bits of each arranged element to `to`, raw_bytes(count, bits) bytes in
/// all; unused bits of the last byte are zero.
template <element_split Split>
void pack_raw_bits(unsigned bits, const std::byte* elements, std::size_t count, std::byte* to) {
  using element = typename Split::element;
  if (bits == 0) return;
  if constexpr (std::is_same_v<Split, byte_split>) {
    if (bits < 8) {
      const std::size_t packed = detail::pack_many_raw_bits(bits, elements, count, to);
      elements += packed;
      count -= packed;
      to += packed / 8 * bits;
    }
  }
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t pending = 0;
  unsigned filled = 0;
  detail::for_each_run(count, [&](std::size_t first, std::size_t run) {
    element values[detail::elements_per_run];
    std::memcpy(values, elements + first * sizeof(element), run * sizeof(element));
    for (std::size_t i = 0; i < run; ++i) values[i] = Split::arrange(values[i]);
    if (bits == 8) {
      std::byte low[detail::elements_per_run];
      for (std::size_t i = 0; i < run; ++i) low[i] = static_cast<std::byte>(values[i] & 0xFFU);
      std::memcpy(to, low, run);
      to += run;
      return;
    }
    for (std::size_t i = 0; i < run; ++i) {
      pending |= (values[i] & mask) << filled;
      filled += bits;
      if (filled >= 32) {
        store_le(to, static_cast<std::uint32_t>(pending));
        to += 4;
        pending >>= 32;
        filled -= 32;
      }
    }
  });
  for (; filled > 0; filled -= filled < 8 ? filled : 8) {
    *to++ = static_cast<std::byte>(pending & 0xFFU);
    pending >>= 8;
  }
}

namespace detail {

/// Unpacks the raw bits of up to elements_per_run elements, `bits` each, from `from` on; may read 8 bytes beyond their
/// end.
template <class Element>
inline void unpack_raw_bits(unsigned bits, const std::byte* from, std::size_t count, Element* values) {
  if (bits == 8) {
    std::uint8_t bytes[elements_per_run];
    std::memcpy(bytes, from, count);
    for (std::size_t i = 0; i < count; ++i) values[i] = bytes[i];
    return;
  }
  // Blocks have a constant size; a shorter last block reads no further than the other cases do. The loops also end at
  // the size of a run, because GCC otherwise warns about writes beyond it.
  if (bits == 4) {
    for (std::size_t at = 0; at < elements_per_run && at < count; at += 16) {
      std::uint8_t pairs[8];
      std::memcpy(pairs, from + at / 2, 8);
      for (std::size_t i = 0; i < 8; ++i) {
        values[at + 2 * i] = static_cast<Element>(pairs[i] & 15U);
        values[at + 2 * i + 1] = static_cast<Element>(pairs[i] >> 4);
      }
    }
    return;
  }
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  if (bits < 8) {
    for (std::size_t at = 0; at < elements_per_run && at < count; at += 8, from += bits) {
      const std::uint64_t eight = load_le<std::uint64_t>(from);
      for (unsigned i = 0; i < 8; ++i) values[at + i] = static_cast<Element>((eight >> (i * bits)) & mask);
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<Element>((load_le<std::uint64_t>(from + i * bits / 8) >> (i * bits % 8)) & mask);
  }
}

}  // namespace detail

/// Joins symbols and raw bits into elements, which may lie at any address. `symbols` are as a decoder wrote them, with
/// zeros in place of their raw low bits; they are not read if bits == element_bits. They may be the last `count` bytes
/// of the elements' memory. Reads up to 8 bytes beyond the raw bits.
template <element_split Split>
void join_elements(unsigned bits, const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                   std::byte* elements, instruction_set isa = instruction_set::scalar) {
  using element = typename Split::element;
  if (Split::id == symbol_map_id::split && bits == 0) {
    if (reinterpret_cast<const std::byte*>(symbols) != elements) std::memcpy(elements, symbols, count);
    return;
  }
  const std::size_t done =
      detail::join_many_elements(element_join::of<Split>(bits), symbols, raw, count, elements, isa);
  symbols += done;
  raw += done / 8 * bits;
  count -= done;
  elements += done * sizeof(element);
  detail::for_each_run(count, [&](std::size_t first, std::size_t run) {
    element values[detail::elements_per_run] = {};
    if (bits != 0) detail::unpack_raw_bits(bits, raw + first / 8 * bits, run, values);
    if (bits != element_bits<Split>) {
      const std::uint8_t* coded = symbols + first;
      for (std::size_t i = 0; i < run; ++i) {
        values[i] = static_cast<element>(values[i] | (static_cast<element>(coded[i]) << low_bits<Split>));
      }
    }
    for (std::size_t i = 0; i < run; ++i) values[i] = Split::restore(values[i]);
    std::memcpy(elements + first * sizeof(element), values, run * sizeof(element));
  });
}

/// Packs the raw bits of codes of one byte into raw_bytes(codes.size(), map.bits) bytes; unused bits of the last byte
/// are zero.
inline void pack_raw_bits(split_map map, std::span<const std::uint8_t> codes, std::byte* to) {
  pack_raw_bits<byte_split>(map.bits, std::as_bytes(codes).data(), codes.size(), to);
}

/// Joins raw bits and `codes` in place, with the kernels of `isa`. Codes have one byte, and their coded symbols are
/// already shifted. Reads up to 8 bytes beyond the raw bits.
inline void merge_raw_bits(split_map map, const std::byte* from, std::span<std::uint8_t> codes,
                           instruction_set isa = instruction_set::automatic) {
  join_elements<byte_split>(map.bits, codes.data(), from, codes.size(), std::as_writable_bytes(codes).data(), isa);
}

}  // namespace ecq
