#pragma once
/// \file
/// Corrupt streams with correct checksums, as somebody who knows the format would forge them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/stream/encoded_stream.hpp"

namespace ecq_test {

/// Calls `use(entry, kind, part)` for each directory entry of bytes that were once a stream; `entry` is its offset.
/// Skips entries of unknown kind and all that do not lie within the bytes, or name bytes that do not.
template <class Use>
void for_each_section(std::span<const std::byte> blob, Use&& use) {
  if (blob.size() < ecq::stream_header::fixed_bytes) return;
  const std::size_t entries = ecq::load_le<std::uint16_t>(&blob[14]);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = ecq::stream_header::fixed_bytes + i * ecq::stream_header::entry_bytes;
    if (entry + ecq::stream_header::entry_bytes > blob.size()) return;
    const auto kind = ecq::load_le<std::uint32_t>(&blob[entry]);
    const ecq::section part{ecq::load_le<std::uint64_t>(&blob[entry + 8]),
                            ecq::load_le<std::uint64_t>(&blob[entry + 16])};
    const bool known = kind >= 1 && kind <= ecq::known_sections;
    if (!known || part.offset > blob.size() || part.size > blob.size() - part.offset) continue;
    use(entry, static_cast<ecq::section_kind>(kind), part);
  }
}

/// Writes the header checksum that fits the bytes.
inline void seal_header(std::span<std::byte> blob) {
  if (blob.size() < ecq::stream_header::fixed_bytes) return;
  ecq::stream_header header;
  const std::uint64_t directory = ecq::stream_header::entry_bytes * ecq::load_le<std::uint16_t>(&blob[14]);
  if (directory <= blob.size() - ecq::stream_header::fixed_bytes) header.directory_bytes = directory;
  for_each_section(blob, [&](std::size_t, ecq::section_kind kind, ecq::section part) { header.at(kind) = part; });
  ecq::store_le(&blob[ecq::stream_header::checksum_offset], header.checksum(blob));
}

/// Writes all checksums that fit the bytes; those of chunks only if the stream can be parsed.
inline void seal(std::span<std::byte> blob) {
  seal_header(blob);
  const auto stream = ecq::encoded_stream::parse(blob);
  if (!stream || stream->chunk_count() == 0) return;
  const std::uint64_t index = stream->header().at(ecq::section_kind::chunk_index).offset;
  const std::uint64_t state_bytes = stream->header().at(ecq::section_kind::states).size / stream->chunk_count();
  for (std::uint64_t i = 0; i < stream->chunk_count(); ++i) {
    const ecq::chunk_bytes chunk = stream->chunk(i);
    const std::uint32_t sum =
        ecq::chunk_checksum(i, {chunk.states, static_cast<std::size_t>(state_bytes)},
                            {chunk.words, std::size_t{2} * chunk.word_count}, stream->raw_bits(i), stream->escapes(i));
    ecq::store_le(&blob[static_cast<std::size_t>(index + i * ecq::chunk_record::bytes + 8)], sum);
  }
  seal_header(blob);
}

}  // namespace ecq_test
