#pragma once
/// \file
/// Chunk index: the position of the first word, the number of the frequency table, and the checksum of each chunk.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/checksum.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/stream/limits.hpp"

namespace ecq {

/// Record of the chunk index. There is one for each chunk, followed by an end record, whose first_word is the number of
/// all words.
struct chunk_record {
  static constexpr std::size_t bytes = 16;
  static constexpr std::size_t checksum_at = 8;

  std::uint64_t first_word = 0;
  std::uint32_t checksum = 0;
  std::uint16_t table = 0;
  std::uint16_t flags = 0;  ///< zero: no flag is defined

  static chunk_record read(const std::byte* from) noexcept {
    return {load_le<std::uint64_t>(from), load_le<std::uint32_t>(from + checksum_at), load_le<std::uint16_t>(from + 12),
            load_le<std::uint16_t>(from + 14)};
  }

  void write(std::byte* to) const noexcept {
    store_le(to, first_word);
    store_le(to + checksum_at, checksum);
    store_le(to + 12, table);
    store_le(to + 14, flags);
  }
};

/// Returns the checksum of chunk `index`: the low half of XXH64 chained over its states, words, raw bits and, if there
/// are any, escapes. The seed is the index, so that a reader notices swapped chunks.
inline std::uint32_t chunk_checksum(std::uint64_t index, std::span<const std::byte> states,
                                    std::span<const std::byte> words, std::span<const std::byte> raw_bits,
                                    std::span<const std::byte> escapes = {}) noexcept {
  const std::uint64_t digest = xxh64(raw_bits, xxh64(words, xxh64(states, index)));
  return static_cast<std::uint32_t>(escapes.empty() ? digest : xxh64(escapes, digest));
}

/// States, words, raw bits and escapes of a chunk.
using chunk_parts = std::array<std::span<const std::byte>, 4>;

/// Largest number of chunks that chunk_checksums() takes.
inline constexpr std::size_t max_checksums = 16;

/// Sets checksums[i] to chunk_checksum(first + i, parts of chunks[i]) for all i, with the kernels of `isa`.
inline void chunk_checksums(std::uint64_t first, std::span<const chunk_parts> chunks,
                            std::span<std::uint32_t> checksums, instruction_set isa) {
  std::uint64_t hashes[max_checksums];
  std::span<const std::byte> inputs[max_checksums];
  for (std::size_t i = 0; i < chunks.size(); ++i) hashes[i] = first + i;
  for (std::size_t part = 0; part < 3; ++part) {
    for (std::size_t i = 0; i < chunks.size(); ++i) inputs[i] = chunks[i][part];
    xxh64_many({inputs, chunks.size()}, {hashes, chunks.size()}, isa);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!chunks[i][3].empty()) hashes[i] = xxh64(chunks[i][3], hashes[i]);
    checksums[i] = static_cast<std::uint32_t>(hashes[i]);
  }
}

/// Returns the number of chunks of 2^chunk_bits symbols that `symbols` symbols make; the last chunk may be shorter.
constexpr std::uint64_t chunks_of(std::uint64_t symbols, unsigned chunk_bits) noexcept {
  return (symbols >> chunk_bits) + ((symbols & ((std::uint64_t{1} << chunk_bits) - 1)) != 0 ? 1 : 0);
}

}  // namespace ecq
