#pragma once
/// \file
/// Definition of symbols as nibbles.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "ecq/entropy/nibble_list.hpp"

namespace ecq {

ECQ_INLINE nibble_list nibble_list::of(const histogram& counts, unsigned symbol_bits) {
  std::array<std::uint8_t, 256> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.begin() + (std::ptrdiff_t{1} << symbol_bits),
                   [&](std::uint8_t a, std::uint8_t b) { return counts.counts[a] > counts.counts[b]; });
  const std::size_t listed = counts.distinct() <= bytes ? bytes : bytes - 1;
  std::array<bool, 256> chosen{};
  for (std::size_t i = 0; i < listed; ++i) chosen[order[i]] = true;
  nibble_list list;
  list.symbols = {};
  std::size_t next = 0;
  for (unsigned symbol = 0; next < listed; ++symbol) {
    if (chosen[symbol]) list.symbols[next++] = static_cast<std::uint8_t>(symbol);
  }
  return list;
}

ECQ_INLINE result<nibble_list> nibble_list::read(std::span<const std::byte, bytes> from, unsigned symbol_bits) {
  nibble_list list;
  std::transform(from.begin(), from.end(), list.symbols.begin(),
                 [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
  const std::size_t listed = list.has_escape() ? bytes - 1 : bytes;
  for (std::size_t i = 0; i < listed; ++i) {
    const unsigned symbol = list.symbols[i];
    if (symbol >> symbol_bits == 0 && (i == 0 || symbol > list.symbols[i - 1])) continue;
    return error(errc::corrupt, "symbol ", symbol, " of nibble ", i, " is out of order or has more than ", symbol_bits,
                 " bits");
  }
  return list;
}

ECQ_INLINE std::array<std::uint8_t, 256> nibble_list::nibbles() const noexcept {
  std::array<std::uint8_t, 256> found{};
  found.fill(escape_value);
  const std::size_t listed = has_escape() ? bytes - 1 : bytes;
  for (std::size_t i = 0; i < listed; ++i) found[symbols[i]] = static_cast<std::uint8_t>(i);
  return found;
}

}  // namespace ecq
