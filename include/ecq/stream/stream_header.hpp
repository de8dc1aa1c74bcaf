#pragma once
/// \file
/// Header and section directory of a stream (docs/format.md). Reading them checks every size before it is used.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ecq/base/checksum.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/limits.hpp"

namespace ecq {

/// Registered kinds of sections, in the order in which they are written. Kinds 6 (gaps) and 7 (block positions) are
/// reserved and not written.
enum class section_kind : std::uint32_t {
  tables = 1,
  chunk_index = 2,
  states = 3,
  raw_bits = 4,
  words = 5,
  nibbles = 8,  ///< for symbols in pairs: the nibble_list and the position of each chunk's first escape
  escapes = 9
};

/// The magic number of a stream: "ECQS".
inline constexpr std::uint32_t stream_magic = 0x53514345;

/// The format version that this library reads and writes.
inline constexpr std::uint16_t stream_version = 1;

/// Size of the header before its directory, in bytes.
inline constexpr std::uint64_t fixed_header_bytes = 64;

/// Size of a section's entry in the directory, in bytes.
inline constexpr std::uint64_t directory_entry_bytes = 24;

/// Offset of the header checksum in bytes.
inline constexpr std::uint64_t header_checksum_at = 56;

/// Alignment in bytes: sections begin, and streams end, at multiples of it.
inline constexpr std::uint64_t section_alignment = 64;

/// Flag of sections that a reader has to know.
inline constexpr std::uint32_t section_required = 1;

/// Largest registered section kind.
inline constexpr std::uint32_t known_sections = 9;

/// Whether this version reads sections of this kind.
constexpr bool is_known_section(std::uint32_t kind) noexcept {
  return (kind >= 1 && kind <= 5) || kind == 8 || kind == 9;
}

/// Offset of a section from the start of the stream, and its size, in bytes.
struct section {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

namespace detail {

/// Sets the offsets of `sections`, an array by kind, from their sizes, and returns the total size of the stream in
/// bytes. The directory has room for all possible sections, so that offsets do not depend on which sections turn out to
/// be empty.
ECQ_HOST_DEVICE constexpr std::uint64_t lay_out_sections(section* sections) noexcept {
  constexpr auto aligned = [](std::uint64_t bytes) {
    return (bytes + section_alignment - 1) / section_alignment * section_alignment;
  };
  const bool nibbles = sections[static_cast<std::uint32_t>(section_kind::nibbles)].size != 0;
  std::uint64_t end = fixed_header_bytes + (nibbles ? 7 : 5) * directory_entry_bytes;
  for (std::uint32_t kind = 1; kind <= known_sections; ++kind) {
    if (sections[kind].size == 0) continue;
    sections[kind].offset = aligned(end);
    end = sections[kind].offset + sections[kind].size;
  }
  return aligned(end + stream_tail_bytes);
}

/// Number that a header adds to the log2 of the states of a trellis.
inline constexpr unsigned trellis_mark = 16;

/// Fields of the fixed header that differ between streams.
struct fixed_header {
  std::uint16_t coder;
  std::uint16_t map_id;
  std::uint8_t raw_bits;
  std::uint8_t chunk_bits;
  std::uint8_t format;
  std::uint64_t symbols;
  std::uint64_t chunks;
  std::uint64_t total_bytes;
  std::uint32_t tables;
  std::uint8_t state_bits = 0;  ///< log2 of the states of the trellis; 0 without one, like period_bits
  std::uint8_t period_bits = 0;
};

/// Writes the header, without its checksum, and the directory; returns the size of the directory in bytes.
ECQ_HOST_DEVICE inline std::uint64_t write_header(std::byte* to, const fixed_header& header, const section* sections) {
  std::byte* entry = to + fixed_header_bytes;
  std::uint16_t entries = 0;
  for (std::uint32_t kind = 1; kind <= known_sections; ++kind) {
    if (sections[kind].size == 0) continue;
    store_le(entry, kind);
    store_le(entry + 4, section_required);
    store_le(entry + 8, sections[kind].offset);
    store_le(entry + 16, sections[kind].size);
    entry += directory_entry_bytes;
    ++entries;
  }
  store_le(to, stream_magic);
  store_le(to + 4, stream_version);
  store_le(to + 6, header.coder);
  store_le(to + 8, header.map_id);
  to[10] = static_cast<std::byte>(header.raw_bits);
  to[11] = static_cast<std::byte>(lane_count);
  to[12] = static_cast<std::byte>(header.chunk_bits);
  to[13] = std::byte{0};
  store_le(to + 14, entries);
  store_le(to + 16, header.symbols);
  store_le(to + 24, header.chunks);
  store_le(to + 32, header.total_bytes);
  store_le(to + 40, header.tables);
  to[44] = static_cast<std::byte>(header.format);
  to[45] = static_cast<std::byte>(header.state_bits == 0 ? 0U : trellis_mark + header.state_bits);
  to[46] = static_cast<std::byte>(header.period_bits);
  for (std::size_t i = 47; i < fixed_header_bytes; ++i) to[i] = std::byte{0};
  return entries * directory_entry_bytes;
}

}  // namespace detail

/// Content of the fixed header, and the places of the known sections (an absent section is empty).
struct stream_header {
  static constexpr std::uint16_t version = stream_version;
  static constexpr std::uint64_t fixed_bytes = fixed_header_bytes;
  static constexpr std::uint64_t entry_bytes = directory_entry_bytes;
  static constexpr std::uint64_t checksum_offset = header_checksum_at;
  static constexpr std::uint64_t alignment = section_alignment;
  static constexpr std::uint32_t required_flag = section_required;

  coder_id coder = coder_id::raw;
  /// Format of the weights whose exponents are the symbols; empty: elements are codes of one byte.
  std::optional<dtype> format;
  bool pairs = false;           ///< whether symbols are coded as two nibbles per byte
  unsigned pairs_raw_bits = 0;  ///< per code of one byte in pairs, 0..7; they are added to its symbol
  split_map map;  ///< map of the symbols, or of the pairs; its raw bits come above those that no coder sees
  std::optional<ecq::trellis> trellis;  ///< trellis of codes of one byte, whose indices the stream holds instead
  unsigned chunk_bits = min_chunk_bits;
  std::uint64_t symbols = 0;
  std::uint64_t chunks = 0;
  std::uint32_t tables = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t directory_bytes = 0;
  std::array<section, known_sections + 1> sections{};  ///< by kind; [0] is not used

  section& at(section_kind kind) noexcept { return sections[static_cast<std::uint32_t>(kind)]; }
  const section& at(section_kind kind) const noexcept { return sections[static_cast<std::uint32_t>(kind)]; }

  /// Returns the size of an element in bytes.
  std::size_t element_bytes() const noexcept { return format ? size_of(*format) : 1; }
  /// Returns the number of bytes that the coder sees of `elements` elements.
  std::uint64_t coded_symbols(std::uint64_t elements) const noexcept { return pairs ? pairs_of(elements) : elements; }
  symbol_map_id map_id() const noexcept {
    if (pairs) return symbol_map_id::pairs;
    return format ? symbol_map_id::exponent : symbol_map_id::split;
  }
  /// Returns the number of bits of a symbol, before it becomes a nibble.
  unsigned symbol_bits() const noexcept {
    return static_cast<unsigned>(8 * element_bytes()) - never_coded_bits(format);
  }
  /// Returns the number of raw bits of an element.
  unsigned raw_bits() const noexcept { return never_coded_bits(format) + pairs_raw_bits + map.bits; }
  /// Returns the number of bits of an element below its symbol.
  static constexpr unsigned never_coded_bits(std::optional<dtype> format) noexcept {
    return visit_split(format, [&]<class Split>() { return low_bits<Split>; });
  }

  /// Sets offsets and total size from the sizes of the sections.
  void lay_out() noexcept {
    directory_bytes = 0;
    for (const section& part : sections) directory_bytes += part.size != 0 ? entry_bytes : 0;
    total_bytes = detail::lay_out_sections(sections.data());
  }

  /// Returns the size in bytes of a stream of coder raw.
  static std::uint64_t raw_stream_bytes(std::uint64_t symbols, unsigned chunk_bits,
                                        std::size_t element_bytes = 1) noexcept {
    stream_header header;
    header.at(section_kind::chunk_index).size = (chunks_of(symbols, chunk_bits) + 1) * chunk_record::bytes;
    header.at(section_kind::raw_bits).size = symbols * element_bytes;
    header.lay_out();
    return header.total_bytes;
  }

  /// Writes header and directory. Tables, chunk index and nibbles must be in place, because the checksum covers them.
  void write(std::span<std::byte> blob) const noexcept {
    detail::write_header(blob.data(),
                         {.coder = static_cast<std::uint16_t>(coder),
                          .map_id = static_cast<std::uint16_t>(map_id()),
                          .raw_bits = static_cast<std::uint8_t>(raw_bits()),
                          .chunk_bits = static_cast<std::uint8_t>(chunk_bits),
                          .format = format ? static_cast<std::uint8_t>(*format) : std::uint8_t{0},
                          .symbols = symbols,
                          .chunks = chunks,
                          .total_bytes = total_bytes,
                          .tables = tables,
                          .state_bits = static_cast<std::uint8_t>(trellis ? trellis->state_bits : 0),
                          .period_bits = static_cast<std::uint8_t>(trellis ? trellis->period_bits : 0)},
                         sections.data());
    store_le(blob.data() + checksum_offset, checksum(blob));
  }

  /// Returns XXH64, chained over the header before its checksum, the directory, the tables, the chunk index and the
  /// nibbles.
  std::uint64_t checksum(std::span<const std::byte> blob) const noexcept {
    std::uint64_t digest = xxh64(blob.first(checksum_offset));
    digest = xxh64(blob.subspan(fixed_bytes, static_cast<std::size_t>(directory_bytes)), digest);
    digest = xxh64(bytes_of(blob, section_kind::tables), digest);
    digest = xxh64(bytes_of(blob, section_kind::chunk_index), digest);
    const auto nibbles = bytes_of(blob, section_kind::nibbles);
    return nibbles.empty() ? digest : xxh64(nibbles, digest);
  }

  std::span<const std::byte> bytes_of(std::span<const std::byte> blob, section_kind kind) const noexcept {
    return blob.subspan(static_cast<std::size_t>(at(kind).offset), static_cast<std::size_t>(at(kind).size));
  }

  /// Reads header and directory from a whole stream and checks everything in them: sizes, order, padding, checksum.
  static result<stream_header> read(std::span<const std::byte> blob);
};

namespace detail {

template <class... Parts>
error stream_error(errc code, const Parts&... parts) {
  return error(code, "stream: ", parts...);
}

/// Entry of the directory, unchecked.
struct section_entry {
  std::uint32_t kind;
  std::uint32_t flags;
  section part;
};

/// Returns entry `number` of the directory that follows `header`.
inline section_entry section_entry_at(const std::byte* header, std::size_t number) {
  const std::byte* const from = header + stream_header::fixed_bytes + number * stream_header::entry_bytes;
  return {load_le<std::uint32_t>(from),
          load_le<std::uint32_t>(from + 4),
          {load_le<std::uint64_t>(from + 8), load_le<std::uint64_t>(from + 16)}};
}

/// Returns the number of directory entries that a header announces.
inline std::size_t entries_said_by(const std::byte* header) { return load_le<std::uint16_t>(header + 14); }

/// Returns the size of the stream, in bytes, that a header announces.
inline std::uint64_t bytes_said_by(const std::byte* header) { return load_le<std::uint64_t>(header + 32); }

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/stream/stream_header-inl.hpp"
#endif
