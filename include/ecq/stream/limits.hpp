#pragma once
/// \file
/// The size of raw bits, and the largest sizes that a stream may have to be read or written. Larger ones are
/// errc::limit_exceeded, before anything is allocated.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq {

/// Most symbols in one stream: 8 Ti, so that counts times 16.16 fixed-point bits stay within 64 bits.
inline constexpr std::uint64_t max_stream_symbols = std::uint64_t{1} << 43;

/// Most sections in one stream's directory.
inline constexpr std::size_t max_stream_sections = 64;

/// Most frequency tables in one stream: a chunk names its table with 16 bits.
inline constexpr std::size_t max_stream_tables = 65536;

/// Most classes of chunks that the encoder takes; each holds a table of up to 192 KiB while encoding.
inline constexpr std::size_t max_encoder_tables = 256;

/// log2 of the fewest symbols per chunk.
inline constexpr unsigned min_chunk_bits = 10;
inline constexpr unsigned max_chunk_bits = 18;  ///< log2 of the most symbols per chunk

/// Bytes that the raw bits of `symbols` symbols take, `bits` bits each.
ECQ_HOST_DEVICE constexpr std::uint64_t raw_bytes(std::uint64_t symbols, unsigned bits) noexcept {
  return symbols / 8 * bits + (symbols % 8 * bits + 7) / 8;
}

}  // namespace ecq
