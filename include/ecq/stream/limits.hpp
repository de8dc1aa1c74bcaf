#pragma once
/// \file
/// Sizes: of what raw bits take, and the largest of a stream that are read or written. Larger ones are
/// errc::limit_exceeded, before anything is allocated.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq {

/// Symbols in one stream: 8 Ti, so that counts times 16.16 fixed-point bits stay within 64 bits.
inline constexpr std::uint64_t max_stream_symbols = std::uint64_t{1} << 43;

/// Sections in one stream's directory.
inline constexpr std::size_t max_stream_sections = 64;

/// Frequency tables in one stream: a chunk names its table with 16 bits.
inline constexpr std::size_t max_stream_tables = 65536;

/// Classes of chunks that the encoder takes; each holds a table of up to 192 KiB while encoding.
inline constexpr std::size_t max_encoder_tables = 256;

/// log2 of the symbols in a chunk: the fewest,
inline constexpr unsigned min_chunk_bits = 10;
inline constexpr unsigned max_chunk_bits = 18;  ///< and the most

/// Bytes that the raw bits of `symbols` symbols take.
ECQ_HOST_DEVICE constexpr std::uint64_t raw_bytes(std::uint64_t symbols, unsigned bits) noexcept {
  return symbols / 8 * bits + (symbols % 8 * bits + 7) / 8;
}

}  // namespace ecq
