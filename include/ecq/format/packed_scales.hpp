#pragma once
/// \file
/// Scales as files store them: for each BF16, the difference of its bits from the smallest in its matrix, both read as
/// integers (docs/format.md). Rows of a matrix have scales of similar size, so 6 to 9 bits suffice.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"

namespace ecq {

/// Packing of the scales of a matrix: four bytes that hold `least` and `bits`, then the differences from `least`,
/// `bits` bits each.
struct scale_packing {
  static constexpr std::uint64_t header_bytes = 4;
  static constexpr unsigned most_bits = 16;

  std::uint16_t least = 0;  ///< the smallest of the scales' bits, read as integers
  unsigned bits = 1;        ///< 1..16; not 0, so that a file's size bounds the number of its scales

  /// Returns the packing that needs the fewest bits.
  static scale_packing of(std::span<const bf16> scales) noexcept;

  /// Returns the size in bytes of `count` (below 2^59) packed scales.
  constexpr std::uint64_t size_bytes(std::uint64_t count) const noexcept {
    return header_bytes + (count * bits + 7) / 8;
  }

  bool operator==(const scale_packing&) const = default;
};

/// Approximate number of bits of a packed scale of rows of trained weights.
inline constexpr double expected_scale_bits = 7;
/// Approximate number of bits of a packed scale if rows share a step and scales only make them unbiased.
inline constexpr double expected_gain_bits = 5;

/// Returns the size of `scales` in bytes once they are packed.
std::uint64_t packed_scale_bytes(std::span<const bf16> scales) noexcept;

/// Packs scales: u16 least, u8 bits, u8 0, then the differences, each with its lowest bit first, from the lowest bit of
/// the first byte on.
std::vector<std::byte> pack_scales(std::span<const bf16> scales);

/// Unpacks the `count` scales in `packed`. Errors: errc::corrupt for numbers out of range, a wrong size, or bits other
/// than 0 after the last scale; errc::out_of_memory.
result<std::vector<bf16>> unpack_scales(std::span<const std::byte> packed, std::uint64_t count);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/format/packed_scales-inl.hpp"
#endif
