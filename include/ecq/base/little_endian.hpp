#pragma once
/// \file
/// Little-endian integers in byte buffers, on machines of either byte order and at any alignment.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ecq/base/config.hpp"

namespace ecq {

/// Reads the `sizeof(Word)` bytes from `from` on as a little-endian unsigned integer.
template <std::unsigned_integral Word>
ECQ_HOST_DEVICE constexpr Word load_le(const std::byte* from) noexcept {
  Word value = 0;
#if !defined(__CUDA_ARCH__)
  if (std::endian::native == std::endian::little && !std::is_constant_evaluated()) {
    std::memcpy(&value, from, sizeof(Word));
    return value;
  }
#endif
  for (std::size_t i = sizeof(Word); i-- > 0;) {
    value = static_cast<Word>((sizeof(Word) > 1 ? value << (8 % (8 * sizeof(Word))) : 0) | static_cast<Word>(from[i]));
  }
  return value;
}

/// Writes `value` to the `sizeof(Word)` bytes from `to` on, least significant byte first.
template <std::unsigned_integral Word>
ECQ_HOST_DEVICE constexpr void store_le(std::byte* to, Word value) noexcept {
#if !defined(__CUDA_ARCH__)
  if (std::endian::native == std::endian::little && !std::is_constant_evaluated()) {
    std::memcpy(to, &value, sizeof(Word));
    return;
  }
#endif
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    to[i] = static_cast<std::byte>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

}  // namespace ecq
