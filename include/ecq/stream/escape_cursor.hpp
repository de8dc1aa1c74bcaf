#pragma once
/// \file
/// The position of a decoder of pairs among the escapes of a chunk.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// The escapes of a chunk that have not been taken yet: symbols of at most `largest`, one byte each.
struct escape_cursor {
  const std::byte* next = nullptr;
  const std::byte* end = nullptr;
  std::uint8_t largest = 255;

  std::size_t left() const noexcept { return static_cast<std::size_t>(end - next); }
};

}  // namespace ecq::detail
