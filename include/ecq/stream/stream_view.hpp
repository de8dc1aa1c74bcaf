#pragma once
/// \file
/// The parsed view of a stream's bytes (docs/format.md).

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// A view of a stream's bytes, which must outlive it. Parsing checks everything except the chunks' own contents, so
/// that all offsets may be relied on; it allocates 4 bytes a table and nothing else.
class encoded_stream {
 public:
  /// Errors: truncated, corrupt, checksum_mismatch, unsupported (newer versions and coders), limit_exceeded.
  static result<encoded_stream> parse(std::span<const std::byte> blob);

  std::uint64_t size() const noexcept { return header_.symbols; }
  std::uint64_t chunk_count() const noexcept { return header_.chunks; }
  /// Symbols in every chunk but the last.
  std::uint64_t chunk_symbols() const noexcept { return std::uint64_t{1} << header_.chunk_bits; }
  unsigned chunk_bits() const noexcept { return header_.chunk_bits; }
  coder_id coder() const noexcept { return header_.coder; }
  /// What the coder does with symbols, or with pairs of nibbles.
  split_map map() const noexcept { return header_.map; }
  /// Whether symbols are coded in pairs, a nibble of nibbles() each.
  bool pairs() const noexcept { return header_.pairs; }
  const nibble_list& nibbles() const noexcept { return nibbles_; }
  /// Format of the weights whose exponents are the symbols; nothing: elements are codes of one byte.
  std::optional<dtype> format() const noexcept { return header_.format; }
  std::size_t element_bytes() const noexcept { return header_.element_bytes(); }
  std::uint32_t table_count() const noexcept { return header_.tables; }
  std::span<const std::byte> bytes() const noexcept { return blob_; }
  /// Counts and section offsets, as a device kernel needs them.
  const stream_header& header() const noexcept { return header_; }

  /// Record of chunk `index` (at most chunk_count(): the end record).
  chunk_record record(std::uint64_t index) const noexcept {
    return chunk_record::read(section_bytes(section_kind::chunk_index) + index * chunk_record::bytes);
  }

  /// Symbols in chunk `index`.
  std::uint32_t symbols_in(std::uint64_t index) const noexcept {
    return static_cast<std::uint32_t>((std::min)(chunk_symbols(), size() - (index << chunk_bits())));
  }

  /// Bytes that chunk `index` decodes to: its symbols, or their pairs.
  std::uint32_t coded_in(std::uint64_t index) const noexcept {
    return static_cast<std::uint32_t>(header_.coded_symbols(symbols_in(index)));
  }

  /// How what is decoded becomes elements: symbols are joined with raw bits, pairs stay as they are.
  element_join join() const {
    if (pairs()) return {};
    return visit_split(format(), [&]<class Split>() { return element_join::of<Split>(header_.raw_bits()); });
  }

  /// Coded bytes of chunk `index`.
  chunk_bytes chunk(std::uint64_t index) const noexcept;

  /// Raw bits of chunk `index`.
  std::span<const std::byte> raw_bits(std::uint64_t index) const noexcept {
    return {section_bytes(section_kind::raw_bits) + raw_bytes(index << chunk_bits(), header_.raw_bits()),
            static_cast<std::size_t>(raw_bytes(symbols_in(index), header_.raw_bits()))};
  }

  /// Symbols of chunk `index` that have no nibble.
  std::span<const std::byte> escapes(std::uint64_t index) const noexcept {
    if (!pairs() || !nibbles_.has_escape()) return {};
    const std::uint64_t first = first_escape(index);
    return {section_bytes(section_kind::escapes) + first, static_cast<std::size_t>(first_escape(index + 1) - first)};
  }

  /// Checks the checksums of `count` chunks from `first` on; the error is that of the first bad one.
  result<void> verify_chunks(std::uint64_t first, std::size_t count, instruction_set isa) const;

  /// Checks the checksums of all chunks.
  result<void> verify(const cpu& backend) const {
    constexpr std::size_t run = 4;
    const auto chunks = static_cast<std::size_t>(chunk_count());
    return parallel_for(backend, (chunks + run - 1) / run, [&](std::size_t index) {
      return verify_chunks(index * run, (std::min)(run, chunks - index * run), backend.isa);
    });
  }

  /// Table `index`, which must be below table_count(); `Coder` must be the stream's.
  template <entropy_coder Coder>
  typename Coder::table table(std::uint32_t index) const {
    std::size_t position = table_positions_[index];
    return std::move(*Coder::table::read(header_.bytes_of(blob_, section_kind::tables), position, map()));
  }

 private:
  const std::byte* section_bytes(section_kind kind) const noexcept { return blob_.data() + header_.at(kind).offset; }

  template <entropy_coder Coder>
  result<void> check_sections();
  result<void> check_index() const;
  result<void> check_nibbles();

  std::uint64_t first_escape(std::uint64_t index) const noexcept {
    return load_le<std::uint64_t>(section_bytes(section_kind::nibbles) + nibble_list::bytes + 8 * index);
  }

  std::span<const std::byte> blob_;
  stream_header header_;
  nibble_list nibbles_;
  std::vector<std::uint32_t> table_positions_;  ///< of each record in the tables section
};

/// Calls `use(Coder{})` with the coder of `id` and returns its result<void>; errc::unsupported for unknown ids.
template <class Use>
result<void> with_coder(coder_id id, Use&& use) {
  switch (id) {
    case coder_id::raw: return use(raw{});
    case coder_id::rans: return use(rans{});
    case coder_id::tans: return use(tans{});
    case coder_id::huffman: return use(huffman{});
    case coder_id::huffman_gaps: return use(huffman_gaps{});
  }
  return detail::stream_error(errc::unsupported, "coder " + std::to_string(static_cast<unsigned>(id)));
}

/// Bytes of a stream that are not words or raw bits, as expected for one table of 64 symbols: header, table, index,
/// padding, and of the states the 24 bits a lane that carry no information. For planning a rate.
constexpr std::uint64_t stream_overhead_bytes(std::uint64_t symbols, unsigned chunk_bits) noexcept {
  constexpr std::uint64_t header_and_padding = 64 + 5 * 24 + 5 * 32 + stream_tail_bytes;
  constexpr std::uint64_t table = 4 + 64 * 3;
  const std::uint64_t chunks = chunks_of(symbols, chunk_bits);
  return header_and_padding + table + (chunks + 1) * chunk_record::bytes + chunks * lane_count * 3;
}

inline chunk_bytes encoded_stream::chunk(std::uint64_t index) const noexcept {
  const std::uint64_t first = record(index).first_word;
  const std::uint64_t state_bytes = chunk_count() == 0 ? 0 : header_.at(section_kind::states).size / chunk_count();
  return {section_bytes(section_kind::states) + index * state_bytes, section_bytes(section_kind::words) + 2 * first,
          static_cast<std::uint32_t>(record(index + 1).first_word - first), coded_in(index)};
}

inline result<void> encoded_stream::verify_chunks(std::uint64_t first, std::size_t count, instruction_set isa) const {
  const auto state_bytes = static_cast<std::size_t>(header_.at(section_kind::states).size / chunk_count());
  for (const std::uint64_t end = first + count; first < end;) {
    const auto run = static_cast<std::size_t>((std::min)(std::uint64_t{max_checksums}, end - first));
    chunk_parts parts[max_checksums];
    std::uint32_t found[max_checksums];
    for (std::size_t i = 0; i < run; ++i) {
      const chunk_bytes coded = chunk(first + i);
      parts[i] = {std::span(coded.states, state_bytes), std::span(coded.words, std::size_t{2} * coded.word_count),
                  raw_bits(first + i), escapes(first + i)};
    }
    chunk_checksums(first, {parts, run}, {found, run}, isa);
    for (std::size_t i = 0; i < run; ++i, ++first) {
      if (found[i] == record(first).checksum) continue;
      return detail::stream_error(errc::checksum_mismatch,
                                  "chunk " + std::to_string(first) + " is not what was written");
    }
  }
  return {};
}

template <entropy_coder Coder>
result<void> encoded_stream::check_sections() {
  const auto expect = [&](section_kind kind, const char* name, std::uint64_t bytes) -> result<void> {
    if (header_.at(kind).size == bytes) return {};
    return detail::stream_error(errc::corrupt, std::string(name) + " of " + std::to_string(header_.at(kind).size) +
                                                   " bytes, expected " + std::to_string(bytes));
  };
  ECQ_CHECK(expect(section_kind::chunk_index, "chunk index", (header_.chunks + 1) * chunk_record::bytes));
  ECQ_CHECK(expect(section_kind::states, "states", header_.chunks * Coder::state_bytes));
  ECQ_CHECK(expect(section_kind::raw_bits, "raw bits", raw_bytes(header_.symbols, header_.raw_bits())));
  ECQ_CHECK(expect(section_kind::words, "words", record(chunk_count()).first_word * 2));
  if (const unsigned used = static_cast<unsigned>(header_.symbols % 8 * header_.raw_bits() % 8); used != 0) {
    const std::byte last = header_.bytes_of(blob_, section_kind::raw_bits).back();
    if ((last >> used) != std::byte{0}) return detail::stream_error(errc::corrupt, "bits after the last raw bit");
  }
  if (header_.tables > max_stream_tables) {
    return detail::stream_error(errc::limit_exceeded, std::to_string(header_.tables) + " tables, more than 65536");
  }
  if (header_.tables > header_.chunks) {
    return detail::stream_error(
        errc::corrupt, std::to_string(header_.tables) + " tables for " + std::to_string(header_.chunks) + " chunks");
  }
  const auto section = header_.bytes_of(blob_, section_kind::tables);
  std::size_t position = 0;
  table_positions_.reserve(header_.tables);
  for (std::uint32_t i = 0; i < header_.tables; ++i) {
    table_positions_.push_back(static_cast<std::uint32_t>(position));
    if (auto read = Coder::table::read(section, position, map()); !read) {
      return std::move(read).error().within("stream: table " + std::to_string(i));
    }
  }
  return expect(section_kind::tables, "tables", position);
}

inline result<void> encoded_stream::check_index() const {
  chunk_record here = record(0);
  if (here.first_word != 0) return detail::stream_error(errc::corrupt, "words begin in the middle");
  for (std::uint64_t i = 0; i < chunk_count(); ++i) {
    const chunk_record next = record(i + 1);
    if (next.first_word < here.first_word || next.first_word - here.first_word > coded_in(i)) {
      return detail::stream_error(errc::corrupt, "chunk " + std::to_string(i) + " of " + std::to_string(coded_in(i)) +
                                                     " symbols has words " + std::to_string(here.first_word) + " to " +
                                                     std::to_string(next.first_word));
    }
    if (here.table >= table_count() || here.flags != 0) {
      return detail::stream_error(errc::corrupt,
                                  "chunk " + std::to_string(i) + " has table " + std::to_string(here.table) + " of " +
                                      std::to_string(table_count()) + " and flags " + std::to_string(here.flags));
    }
    here = next;
  }
  if (here.checksum == 0 && here.table == 0 && here.flags == 0) return {};
  return detail::stream_error(errc::corrupt, "the index's end record holds more than the number of words");
}

inline result<void> encoded_stream::check_nibbles() {
  const auto section = header_.bytes_of(blob_, section_kind::nibbles);
  const std::uint64_t escapes = header_.at(section_kind::escapes).size;
  const bool listed = header_.pairs && header_.symbol_bits() > 4;
  if (listed && section.size() >= nibble_list::bytes) {
    auto list = nibble_list::read(section.first<nibble_list::bytes>(), header_.symbol_bits());
    if (!list) return std::move(list).error().within("stream");
    nibbles_ = *list;
  }
  const std::uint64_t expected =
      !listed ? 0 : nibble_list::bytes + (nibbles_.has_escape() ? 8 * (chunk_count() + 1) : 0);
  if (section.size() != expected) {
    return detail::stream_error(
        errc::corrupt, "nibbles of " + std::to_string(section.size()) + " bytes, expected " + std::to_string(expected));
  }
  if (expected <= nibble_list::bytes) {
    if (escapes == 0) return {};
    return detail::stream_error(errc::corrupt, std::to_string(escapes) + " escapes of symbols that need none");
  }
  std::uint64_t here = first_escape(0);
  bool valid = here == 0;
  for (std::uint64_t i = 0; valid && i < chunk_count(); ++i) {
    const std::uint64_t next = first_escape(i + 1);
    valid = next >= here && next - here <= symbols_in(i);
    here = next;
  }
  if (valid && here == escapes) return {};
  return detail::stream_error(errc::corrupt, "chunks do not share the " + std::to_string(escapes) + " escapes out");
}

inline result<encoded_stream> encoded_stream::parse(std::span<const std::byte> blob) {
  try {
    encoded_stream stream;
    stream.blob_ = blob;
    ECQ_TRY(header, stream_header::read(blob));
    stream.header_ = header;
    // 16 bytes a chunk: an index of the right size bounds the number of chunks by the blob's own size.
    ECQ_CHECK(with_coder(stream.coder(), [&]<class Coder>(Coder) { return stream.template check_sections<Coder>(); }));
    ECQ_CHECK(stream.check_index());
    ECQ_CHECK(stream.check_nibbles());
    return stream;
  } catch (const std::bad_alloc&) {
    return detail::stream_error(errc::out_of_memory, "allocation failed");
  }
}

}  // namespace ecq
