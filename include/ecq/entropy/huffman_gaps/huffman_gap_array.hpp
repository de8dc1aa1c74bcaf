#pragma once
/// \file
/// Layout in memory of a chunk of Huffman codes with gap arrays.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq {

/// Windows per stretch (wire format). In the papers, a block of threads decodes a stretch, one window per thread.
inline constexpr std::uint32_t gap_stretch_windows = 256;
/// Number of bits of a window (wire format).
inline constexpr std::uint32_t gap_window_bits = 64;

/// View of a chunk's gap array (docs/format.md). Up to 16 bytes beyond its end may be read.
struct gap_array_view {
  const std::byte* positions;  ///< u32 each: number of the code that begins each stretch
  const std::byte* gaps;       ///< gap_bits each: where in its window the first code word starts
  const std::byte* bits;       ///< code words, `windows` * 8 bytes
  std::uint32_t windows;       ///< at least 1
  std::uint32_t symbols;       ///< codes of the chunk
  unsigned gap_bits;           ///< 4 or 5

  ECQ_HOST_DEVICE std::uint32_t stretches() const { return (windows + gap_stretch_windows - 1) / gap_stretch_windows; }

  /// Returns the number of the first code of stretch `stretch`. For the stretch after the last one, this is the number
  /// of codes of the chunk.
  ECQ_HOST_DEVICE std::uint32_t position(std::uint32_t stretch) const {
    return stretch < stretches() ? word_at(positions + std::size_t{4} * stretch) : symbols;
  }

  ECQ_HOST_DEVICE std::uint32_t gap(std::uint32_t window) const {
    const std::uint32_t bit = window * gap_bits;
    const auto two = static_cast<std::uint32_t>(gaps[bit / 8]) | (static_cast<std::uint32_t>(gaps[bit / 8 + 1]) << 8);
    return (two >> (bit % 8)) & ((1U << gap_bits) - 1U);
  }

 private:
  ECQ_HOST_DEVICE static std::uint32_t word_at(const std::byte* from) {
    return static_cast<std::uint32_t>(from[0]) | (static_cast<std::uint32_t>(from[1]) << 8) |
           (static_cast<std::uint32_t>(from[2]) << 16) | (static_cast<std::uint32_t>(from[3]) << 24);
  }
};

/// Returns the number of 16-bit words of a chunk of gap arrays whose code words fill `windows` windows, with gaps of
/// `gap_bits` bits.
ECQ_HOST_DEVICE constexpr std::uint64_t gap_array_words(std::uint64_t windows, unsigned gap_bits) {
  const std::uint64_t stretches = (windows + gap_stretch_windows - 1) / gap_stretch_windows;
  return 2 + 2 * stretches + (windows * gap_bits + 15) / 16 + windows * (gap_window_bits / 16);
}

/// Returns the number of 16-bit words of a stored chunk.
ECQ_HOST_DEVICE constexpr std::uint32_t gap_stored_words(std::uint32_t symbols) { return (symbols + 1) / 2; }

/// Returns the number of bits that store a gap. A gap is less than the length of the longest code word.
ECQ_HOST_DEVICE constexpr unsigned gap_bits_of(unsigned longest) { return longest <= 16 ? 4 : 5; }

}  // namespace ecq
