#pragma once
/// \file
/// Which weights are multiplied by one row of activations as they are decoded, without being stored.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// How a stream's codes meet activations in the registers in which they are decoded.
enum class fusion : std::uint8_t {
  none,   ///< they are stored first
  codes,  ///< codes, each a symbol
  pairs,  ///< codes in narrow pairs
  bf16    ///< BF16 without loss
};

/// For more rows of activations, weights are stored in the order of the columns: the activations are reordered as they
/// are copied, which would take twice their memory.
inline constexpr std::size_t most_fused_rows = 256;

/// Weights that are multiplied together: chunks and rows hold whole groups of them.
constexpr std::size_t group_of(fusion how) { return how == fusion::pairs ? 256 : 128; }

/// The column whose activation is number `at` in the order in which they are met: 16 at a time, those that lanes of 32
/// bits hold at once.
constexpr std::size_t column_met(fusion how, std::size_t at) {
  const std::size_t lane = at % 16;
  if (how == fusion::codes) return at / 128 * 128 + 8 * lane + at % 32 / 16 * 4 + at % 128 / 32;
  if (how == fusion::bf16) return at / 32 * 32 + 2 * lane + at % 32 / 16;
  constexpr std::size_t first[4] = {0, 2, 1, 3};
  return at / 64 * 64 + 4 * lane + first[at % 64 / 16];
}

}  // namespace ecq::detail
