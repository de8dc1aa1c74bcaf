#pragma once
/// \file
/// Byte permutations that expand words to the lanes that are due, for instruction sets without an expanding load.

#include <array>
#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// Byte permutations, one for each subset of eight lanes, that bring the next words to the lanes of the subset and zero
/// to the others.
inline constexpr auto word_permutations = [] {
  std::array<std::array<std::uint8_t, 16>, 256> all{};
  for (std::size_t set = 0; set < 256; ++set) {
    std::uint8_t next = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const bool due = ((set >> lane) & 1U) != 0;
      all[set][2 * lane] = due ? next : std::uint8_t{0x80};
      all[set][2 * lane + 1] = due ? static_cast<std::uint8_t>(next + 1) : std::uint8_t{0x80};
      next = static_cast<std::uint8_t>(next + (due ? 2 : 0));
    }
  }
  return all;
}();

}  // namespace ecq::detail
