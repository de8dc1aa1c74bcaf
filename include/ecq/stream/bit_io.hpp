#pragma once
/// \file
/// The raw low bits of codes: `bits` a symbol, one after another, least significant bit first.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/little_endian.hpp"

namespace ecq {

/// Bytes that the raw bits of `symbols` symbols take.
constexpr std::uint64_t raw_bytes(std::uint64_t symbols, unsigned bits) noexcept {
  return symbols / 8 * bits + (symbols % 8 * bits + 7) / 8;
}

/// Writes the raw bits of `codes`, raw_bytes(codes.size(), map.bits) bytes; unused bits of the last byte are zero.
inline void pack_raw_bits(split_map map, std::span<const std::uint8_t> codes, std::byte* to) {
  if (map.bits == 0 || codes.empty()) return;
  if (map.bits == 8) {
    std::memcpy(to, codes.data(), codes.size());
    return;
  }
  std::uint64_t pending = 0;
  unsigned filled = 0;
  for (const std::uint8_t code : codes) {
    pending |= static_cast<std::uint64_t>(map.raw(code)) << filled;
    filled += map.bits;
    if (filled >= 32) {
      store_le(to, static_cast<std::uint32_t>(pending));
      to += 4;
      pending >>= 32;
      filled -= 32;
    }
  }
  for (; filled > 0; filled -= filled < 8 ? filled : 8) {
    *to++ = static_cast<std::byte>(pending & 0xFFU);
    pending >>= 8;
  }
}

/// Joins raw bits to `codes`, which hold the coded symbols shifted into place. Reads up to 8 bytes beyond the raw bits.
inline void merge_raw_bits(split_map map, const std::byte* from, std::span<std::uint8_t> codes) {
  if (map.bits == 0 || codes.empty()) return;
  if (map.bits == 8) {
    std::memcpy(codes.data(), from, codes.size());
    return;
  }
  const std::uint64_t mask = (1U << map.bits) - 1U;
  std::size_t at = 0;
  for (; at + 8 <= codes.size(); at += 8, from += map.bits) {
    std::uint64_t pending = load_le<std::uint64_t>(from);
    std::uint64_t spread = 0;
    for (unsigned i = 0; i < 8; ++i, pending >>= map.bits) spread |= (pending & mask) << (8 * i);
    std::byte* eight = reinterpret_cast<std::byte*>(codes.data() + at);
    store_le(eight, load_le<std::uint64_t>(eight) | spread);
  }
  std::uint64_t pending = load_le<std::uint64_t>(from);
  for (; at < codes.size(); ++at, pending >>= map.bits) {
    codes[at] = static_cast<std::uint8_t>(codes[at] | (pending & mask));
  }
}

}  // namespace ecq
