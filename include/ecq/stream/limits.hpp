#pragma once
/// \file
/// Size of raw bits, and the limits of streams that are read or written. Larger streams fail with errc::limit_exceeded
/// before anything is allocated.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq {

/// Largest number of symbols in a stream: 8 Ti, so that counts times 16.16 fixed-point bits fit in 64 bits.
inline constexpr std::uint64_t max_stream_symbols = std::uint64_t{1} << 43;

/// Largest number of sections in the directory of a stream.
inline constexpr std::size_t max_stream_sections = 64;

/// Largest number of frequency tables in a stream: a chunk names its table with 16 bits.
inline constexpr std::size_t max_stream_tables = 65536;

/// Largest number of classes of chunks that the encoder takes; each class holds tables of up to 192 KiB during
/// encoding, 704 KiB with goal cpu.
inline constexpr std::size_t max_encoder_tables = 256;

/// log2 of the fewest symbols per chunk.
inline constexpr unsigned min_chunk_bits = 10;
inline constexpr unsigned max_chunk_bits = 18;  ///< log2 of the most symbols per chunk

/// Returns the number of bytes that the raw bits of `symbols` symbols take, `bits` bits each.
ECQ_HOST_DEVICE constexpr std::uint64_t raw_bytes(std::uint64_t symbols, unsigned bits) noexcept {
  return symbols / 8 * bits + (symbols % 8 * bits + 7) / 8;
}

}  // namespace ecq
