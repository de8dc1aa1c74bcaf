#pragma once
/// \file
/// Position of a decoder of pairs among the escapes of a chunk.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// Escapes of a chunk that have not been taken yet: symbols of at most `largest`, one byte each.
struct escape_cursor {
  const std::byte* next = nullptr;
  const std::byte* end = nullptr;
  std::uint8_t largest = 255;

  std::size_t left() const noexcept { return static_cast<std::size_t>(end - next); }

  /// Whether at least `count` escapes are left and the next `count` are valid symbols.
  bool can_take(std::size_t count) const noexcept {
    return count <= left() && std::all_of(next, next + count, [this](std::byte value) {
             return std::to_integer<std::uint8_t>(value) <= largest;
           });
  }

  std::uint8_t take() noexcept { return std::to_integer<std::uint8_t>(*next++); }
};

}  // namespace ecq::detail
