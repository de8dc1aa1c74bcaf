#pragma once
/// \file
/// Conversion of symbols to pairs of nibbles and back (docs/format.md, symbol map pairs).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/split_pairs.hpp"

namespace ecq {

namespace detail {

/// Number of elements whose symbols are in a buffer at once, before they are joined: few enough for the first-level
/// cache.
inline constexpr std::size_t numbers_per_split = 4096;

/// Writes the `count` symbols of `pairs`, which may be the last bytes of the memory for symbols. Returns false if an
/// escape is missing or is not a symbol, or if the upper nibble of an odd last pair is not 0.
inline bool split_pairs(const nibble_list& list, const std::uint8_t* pairs, std::size_t count, std::uint8_t* symbols,
                        escape_cursor& escapes, instruction_set isa = instruction_set::scalar) {
  if (count % 2 != 0 && pairs[count / 2] >> 4 != 0) return false;
  for (std::size_t i = split_many_pairs(list, pairs, count, symbols, escapes, isa); i < count; ++i) {
    const unsigned nibble = (static_cast<unsigned>(pairs[i / 2]) >> (4 * (i % 2))) & 15U;
    symbols[i] = list.symbols[nibble];
    if (nibble != nibble_list::escape_value || !list.has_escape()) continue;
    if (escapes.left() == 0) return false;
    symbols[i] = static_cast<std::uint8_t>(*escapes.next++);
    if (symbols[i] > escapes.largest) return false;
  }
  return true;
}

/// Adds raw bits, `bits` (1..7) each, to `count` codes of one byte, modulo 256. Reads up to 8 bytes beyond the raw
/// bits.
inline void add_raw_bits(unsigned bits, const std::byte* raw, std::size_t count, std::uint8_t* codes,
                         instruction_set isa) {
  const std::size_t done = add_many_raw_bits(bits, raw, count, codes, isa);
  raw += done / 8 * bits;
  codes += done;
  count -= done;
  for_each_run(count, [&](std::size_t first, std::size_t run) {
    std::uint8_t values[elements_per_run] = {};
    unpack_raw_bits(bits, raw + first / 8 * bits, run, values);
    for (std::size_t i = 0; i < run; ++i) codes[first + i] = static_cast<std::uint8_t>(codes[first + i] + values[i]);
  });
}

}  // namespace detail

/// Joins the pairs that a decoder wrote for a chunk with its raw bits and escapes, into `count` elements, like
/// join_elements(). `pairs` may be the last bytes of the elements' memory. Returns errc::corrupt if the number of
/// escapes does not match the pairs, if an escape is not a symbol of `Split`, or if the upper nibble of an odd last
/// pair is not 0. `bits` is the number of raw bits of an element: low_bits<Split>, or up to 7 for codes of one byte.
template <element_split Split>
errc join_pairs(const nibble_list& list, const std::uint8_t* pairs, const std::byte* raw,
                std::span<const std::byte> escapes, std::size_t count, std::byte* elements,
                instruction_set isa = instruction_set::scalar, unsigned bits = low_bits<Split>) {
  detail::escape_cursor cursor{escapes.data(), escapes.data() + escapes.size(),
                               static_cast<std::uint8_t>((1U << Split::symbol_bits) - 1U)};
  for (std::size_t at = 0; at < count; at += detail::numbers_per_split) {
    const std::size_t run = (std::min)(count - at, detail::numbers_per_split);
    if constexpr (std::is_same_v<Split, byte_split>) {
      auto* const symbols = reinterpret_cast<std::uint8_t*>(elements) + at;
      if (!detail::split_pairs(list, pairs + at / 2, run, symbols, cursor, isa)) return errc::corrupt;
      if (bits != 0) detail::add_raw_bits(bits, raw + at / 8 * bits, run, symbols, isa);
    } else {
      std::uint8_t symbols[detail::numbers_per_split];
      if (!detail::split_pairs(list, pairs + at / 2, run, symbols, cursor, isa)) return errc::corrupt;
      join_elements<Split>(low_bits<Split>, symbols, raw + at / 8 * low_bits<Split>, run,
                           elements + at * sizeof(typename Split::element), isa);
    }
  }
  return cursor.left() == 0 ? errc::ok : errc::corrupt;
}

}  // namespace ecq
