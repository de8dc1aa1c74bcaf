#pragma once
/// \file
/// Goal that a stream is optimised for, and its consequences: the size of chunks, and the number of bits of codes that
/// stay raw.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ecq/entropy/entropy_coder.hpp"

namespace ecq {

/// Goal that streams are optimised for.
enum class stream_goal : std::uint8_t {
  size,  ///< as few bytes as the coders can do with single codes
  cpu,   ///< decoding on processors: narrow pairs of codes wherever they take at most pair_allowance more
  gpu    ///< decoding on devices: many chunks, of single codes without raw bits
};

/// Returns log2 of the symbols per chunk for a stream of `symbols` symbols. There are at least 64 chunks, as long as a
/// chunk's 32 states and its record take less than 0.04 bits per symbol. For devices, there are at least 2^14 chunks,
/// which is two or three for each warp of a large device, as long as states and records take less than 0.15 bits per
/// symbol. Chunks for devices have at least 2^13 symbols.
constexpr unsigned default_chunk_bits(std::uint64_t symbols, stream_goal goal = stream_goal::size) noexcept {
  const std::uint64_t share = symbols >> (goal == stream_goal::gpu ? 14 : 6);
  const unsigned bits = share == 0 ? 0U : static_cast<unsigned>(std::bit_width(share)) - 1U;
  return std::clamp(bits, goal == stream_goal::gpu ? 13U : 15U, 16U);
}

/// Returns the largest number of raw bits of a symbol that the plan of a stream may choose. Raw bits save up to 0.02
/// bits per code of wide alphabets, and let tables fit into the registers of processors. Devices, whose tables lie in
/// memory, decode codes with raw bits half as fast. Streams for devices may have raw bits all the same if they have gap
/// arrays, because gaps cost something for each coded bit.
constexpr unsigned most_raw_bits(stream_goal goal, coder_id coder) noexcept {
  return goal == stream_goal::gpu && coder != coder_id::huffman_gaps ? 0 : 7;
}

}  // namespace ecq
