#pragma once
/// \file
/// Symbol maps lie between codes and the entropy coder: which part of a code is entropy coded, which stored as raw
/// bits.

#include <concepts>
#include <cstdint>

namespace ecq {

/// Registered ids of symbol maps (docs/format.md).
enum class symbol_map_id : std::uint16_t { split = 0 };

/// A code is the pair of its coded symbol and `raw_bits()` (0..8) raw bits: join(coded(c), raw(c)) == c for every c.
template <class Map>
concept symbol_map = requires(const Map map, std::uint8_t value) {
  { Map::id } -> std::convertible_to<symbol_map_id>;
  { map.raw_bits() } -> std::same_as<unsigned>;
  { map.coded(value) } -> std::same_as<std::uint8_t>;
  { map.raw(value) } -> std::same_as<std::uint8_t>;
  { map.join(value, value) } -> std::same_as<std::uint8_t>;
};

/// The low `bits` (0..8) of a code are raw, the others coded. 0 is the identity map, 8 codes nothing at all.
struct split_map {
  static constexpr symbol_map_id id = symbol_map_id::split;

  unsigned bits = 0;

  constexpr unsigned raw_bits() const noexcept { return bits; }
  constexpr std::uint8_t coded(std::uint8_t code) const noexcept { return static_cast<std::uint8_t>(code >> bits); }
  constexpr std::uint8_t raw(std::uint8_t code) const noexcept {
    return static_cast<std::uint8_t>(code & ((1U << bits) - 1U));
  }
  constexpr std::uint8_t join(std::uint8_t coded, std::uint8_t raw) const noexcept {
    return static_cast<std::uint8_t>((coded << bits) | raw);
  }

  bool operator==(const split_map&) const = default;
};

static_assert(symbol_map<split_map>);

}  // namespace ecq
