#pragma once
/// \file
/// Definition of reading a stream's header.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/stream/limits.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {
namespace detail {

inline result<void> check_zero(std::span<const std::byte> blob, std::uint64_t from, std::uint64_t to) {
  const auto begin = blob.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end = blob.begin() + static_cast<std::ptrdiff_t>(to);
  const auto bad = std::find_if(begin, end, [](std::byte value) { return value != std::byte{0}; });
  if (bad == end) return {};
  return stream_error(errc::corrupt, "padding at byte ", bad - blob.begin(), " is not zero");
}

/// Reads the trellis of the header at `from` into `header`, whose format and chunk_bits have been read already.
inline result<void> read_trellis(const std::byte* from, stream_header& header) {
  const auto marked = static_cast<unsigned>(from[45]);
  const auto period_bits = static_cast<unsigned>(from[46]);
  if (marked == 0) {
    if (period_bits == 0) return {};
    return stream_error(errc::corrupt, "periods of 2^", period_bits, " codes without a trellis");
  }
  if (marked < trellis_mark + trellis::min_state_bits || marked > trellis_mark + trellis::max_state_bits) {
    return stream_error(errc::unsupported, "trellis of kind ", marked);
  }
  if (header.format) return stream_error(errc::corrupt, "weights of ", to_string(*header.format), " have a trellis");
  if (period_bits < min_chunk_bits || period_bits > header.chunk_bits) {
    return stream_error(errc::corrupt, "periods of 2^", period_bits, " codes do not fit chunks of 2^",
                        header.chunk_bits);
  }
  header.trellis = trellis{marked - trellis_mark, period_bits};
  return {};
}

/// Reads the directory of `blob` into `header`, whose total size has been checked against the blob.
inline result<void> read_directory(std::span<const std::byte> blob, std::size_t entries, stream_header& header) {
  std::uint64_t end = stream_header::fixed_bytes + entries * stream_header::entry_bytes;
  header.directory_bytes = entries * stream_header::entry_bytes;
  const std::uint64_t room = header.total_bytes - stream_tail_bytes;
  if (entries > max_stream_sections || end > room) {
    return stream_error(errc::corrupt, "directory of ", entries, " sections does not fit ", blob.size(), " bytes");
  }
  for (std::size_t i = 0; i < entries; ++i) {
    const section_entry entry = section_entry_at(blob.data(), i);
    const std::uint32_t kind = entry.kind;
    const std::uint32_t flags = entry.flags;
    const section& part = entry.part;
    const auto bad = [&](errc code, const auto&... parts) {
      return stream_error(code, "section ", i, " (kind ", kind, ")", parts...);
    };
    if (part.offset % stream_header::alignment != 0 || part.offset < end || part.size == 0 || part.offset > room ||
        part.size > room - part.offset) {
      return bad(errc::corrupt, " at ", part.offset, " with ", part.size, " bytes is empty, misaligned or not between ",
                 end, " and ", room);
    }
    if ((flags & ~stream_header::required_flag) != 0) {
      return bad(errc::unsupported, " has unknown flags ", flags);
    }
    if (is_known_section(kind)) {
      if (header.sections[kind].size != 0) return bad(errc::corrupt, " occurs twice");
      header.sections[kind] = part;
    } else if ((flags & stream_header::required_flag) != 0) {
      return bad(errc::unsupported, " is required, but unknown to this version");
    }
    ECQ_CHECK(check_zero(blob, end, part.offset));
    end = part.offset + part.size;
  }
  return check_zero(blob, end, header.total_bytes);
}

}  // namespace detail

ECQ_INLINE result<stream_header> stream_header::read(std::span<const std::byte> blob) {
  using detail::stream_error;
  if (blob.size() < fixed_bytes + stream_tail_bytes) {
    return stream_error(errc::truncated, blob.size(), " bytes are too few for a stream");
  }
  const std::byte* from = blob.data();
  if (load_le<std::uint32_t>(from) != stream_magic) return stream_error(errc::corrupt, "does not begin with ECQS");
  if (const auto found = load_le<std::uint16_t>(from + 4); found != version) {
    return stream_error(errc::unsupported, "format version ", found, ", but this library reads only 1");
  }
  stream_header header;
  header.coder = static_cast<coder_id>(load_le<std::uint16_t>(from + 6));
  const auto map_id = load_le<std::uint16_t>(from + 8);
  if (map_id > static_cast<std::uint16_t>(symbol_map_id::pairs)) {
    return stream_error(errc::unsupported, "symbol map ", map_id);
  }
  header.pairs = map_id == static_cast<std::uint16_t>(symbol_map_id::pairs);
  const auto format = static_cast<dtype>(from[44]);
  if (map_id == static_cast<std::uint16_t>(symbol_map_id::exponent) || (header.pairs && format != dtype{})) {
    if (!is_floating_point(format)) {
      return stream_error(errc::unsupported, "exponents of format ", static_cast<unsigned>(from[44]));
    }
    header.format = format;
  } else if (from[44] != std::byte{0}) {
    return stream_error(errc::corrupt, "codes of one byte have a format");
  }
  const auto raw_bits = static_cast<unsigned>(from[10]);
  header.chunk_bits = static_cast<unsigned>(from[12]);
  header.symbols = load_le<std::uint64_t>(from + 16);
  header.chunks = load_le<std::uint64_t>(from + 24);
  header.total_bytes = detail::bytes_said_by(from);
  header.tables = load_le<std::uint32_t>(from + 40);
  const auto all_bits = static_cast<unsigned>(8 * header.element_bytes());
  const unsigned fewest = never_coded_bits(header.format);
  if (raw_bits < fewest || raw_bits > (header.pairs && header.format ? fewest : all_bits) ||
      (raw_bits == all_bits) != (header.coder == coder_id::raw)) {
    return stream_error(errc::corrupt, raw_bits, " raw bits per symbol are invalid with coder ",
                        static_cast<unsigned>(header.coder));
  }
  if (header.pairs) header.pairs_raw_bits = raw_bits - fewest;
  header.map = header.pairs ? pair_map : split_map{raw_bits - fewest, header.symbol_bits()};
  if (static_cast<std::uint32_t>(from[11]) != lane_count) {
    return stream_error(errc::unsupported, static_cast<unsigned>(from[11]), " lanes, not 32");
  }
  if (header.chunk_bits < min_chunk_bits || header.chunk_bits > max_chunk_bits) {
    return stream_error(errc::corrupt, "chunks of 2^", header.chunk_bits, " symbols, not 2^10..2^18");
  }
  if (from[13] != std::byte{0}) {
    return stream_error(errc::unsupported, "context model ", static_cast<unsigned>(from[13]));
  }
  if (header.symbols > max_stream_symbols) {
    return stream_error(errc::limit_exceeded, header.symbols, " symbols, more than 2^43");
  }
  if (header.chunks != chunks_of(header.symbols, header.chunk_bits)) {
    return stream_error(errc::corrupt, header.chunks, " chunks for ", header.symbols, " symbols in chunks of 2^",
                        header.chunk_bits);
  }
  if (header.total_bytes > blob.size()) {
    return stream_error(errc::truncated, "only ", blob.size(), " of ", header.total_bytes, " bytes");
  }
  if (header.total_bytes != blob.size() || header.total_bytes % alignment != 0) {
    return stream_error(errc::corrupt, blob.size(), " bytes hold a stream of ", header.total_bytes, " bytes");
  }
  ECQ_CHECK(detail::read_trellis(from, header));
  ECQ_CHECK(detail::check_zero(blob, 47, checksum_offset));
  ECQ_CHECK(detail::read_directory(blob, detail::entries_said_by(from), header));
  if (header.checksum(blob) != load_le<std::uint64_t>(from + checksum_offset)) {
    return stream_error(errc::checksum_mismatch, "header, tables or chunk index do not match their checksum");
  }
  return header;
}

}  // namespace ecq
