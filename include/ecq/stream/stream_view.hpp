#pragma once
/// \file
/// Parsed view of a stream's bytes (docs/format.md).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// View of a stream's bytes, which must outlive it. Parsing checks everything except the contents of chunks, so that
/// all offsets can be relied on. It allocates 4 bytes per table and nothing else.
class encoded_stream {
 public:
  /// Parses and checks a stream. Errors: truncated, corrupt, checksum_mismatch, unsupported (newer versions; coders
  /// that are not `accepted`), limit_exceeded.
  static result<encoded_stream> parse(std::span<const std::byte> blob, coder_set accepted);
  template <class Every = every_coder>
  static result<encoded_stream> parse(std::span<const std::byte> blob) {
    return parse(blob, Every());
  }

  std::uint64_t size() const noexcept { return header_.symbols; }
  std::uint64_t chunk_count() const noexcept { return header_.chunks; }
  /// Returns the number of symbols in every chunk but the last.
  std::uint64_t chunk_symbols() const noexcept { return std::uint64_t{1} << header_.chunk_bits; }
  unsigned chunk_bits() const noexcept { return header_.chunk_bits; }
  coder_id coder() const noexcept { return header_.coder; }
  /// Returns the split map that the coder applies to symbols, or to pairs of nibbles.
  split_map map() const noexcept { return header_.map; }
  /// Whether symbols are coded in pairs, each as a nibble of nibbles().
  bool pairs() const noexcept { return header_.pairs; }
  const nibble_list& nibbles() const noexcept { return nibbles_; }
  /// Returns the format of the weights whose exponents are the symbols; empty if elements are codes of one byte.
  std::optional<dtype> format() const noexcept { return header_.format; }
  std::size_t element_bytes() const noexcept { return header_.element_bytes(); }
  /// Returns the trellis on which codes lie. If there is one, coder, pairs and raw bits give indices instead of codes.
  const std::optional<ecq::trellis>& trellis() const noexcept { return header_.trellis; }
  std::uint32_t table_count() const noexcept { return header_.tables; }
  std::span<const std::byte> bytes() const noexcept { return blob_; }
  /// Returns the header with its counts and section offsets, which a device kernel needs.
  const stream_header& header() const noexcept { return header_; }

  /// Returns the record of chunk `index` or, if `index` is chunk_count(), the end record. `index` must not be larger.
  chunk_record record(std::uint64_t index) const noexcept {
    return chunk_record::read(section_bytes(section_kind::chunk_index) + index * chunk_record::bytes);
  }

  /// Returns the number of symbols in chunk `index`.
  std::uint32_t symbols_in(std::uint64_t index) const noexcept {
    return static_cast<std::uint32_t>((std::min)(chunk_symbols(), size() - (index << chunk_bits())));
  }

  /// Returns the number of bytes that chunk `index` decodes to: one per symbol, or one per pair.
  std::uint32_t coded_in(std::uint64_t index) const noexcept {
    return static_cast<std::uint32_t>(header_.coded_symbols(symbols_in(index)));
  }

  /// Returns how decoded bytes become elements: symbols and pairs of codes are joined with raw bits; pairs of exponents
  /// stay as they are. The result holds a pointer to nibbles().
  element_join join() const;

  /// Returns the coded bytes of chunk `index`.
  chunk_bytes chunk(std::uint64_t index) const noexcept;

  /// Returns the raw bits of chunk `index`.
  std::span<const std::byte> raw_bits(std::uint64_t index) const noexcept {
    return {section_bytes(section_kind::raw_bits) + raw_bytes(index << chunk_bits(), header_.raw_bits()),
            static_cast<std::size_t>(raw_bytes(symbols_in(index), header_.raw_bits()))};
  }

  /// Returns the symbols of chunk `index` that are escapes.
  std::span<const std::byte> escapes(std::uint64_t index) const noexcept {
    if (!pairs() || !nibbles_.has_escape()) return {};
    const std::uint64_t first = first_escape(index);
    return {section_bytes(section_kind::escapes) + first, static_cast<std::size_t>(first_escape(index + 1) - first)};
  }

  /// Verifies the checksums of `count` chunks from `first` on; the error is that of the first bad chunk.
  result<void> verify_chunks(std::uint64_t first, std::size_t count, instruction_set isa) const;

  /// Verifies the checksums of all chunks.
  result<void> verify(const cpu& backend) const;

  /// Returns table `index`, which must be below table_count(). `Coder` must be the stream's.
  template <entropy_coder Coder>
  typename Coder::table table(std::uint32_t index) const {
    std::size_t position = table_positions_[index];
    return std::move(*Coder::table::read(header_.bytes_of(blob_, section_kind::tables), position, map()));
  }

  /// Returns the decoder of table `index`, which must be below table_count(). Throws std::bad_alloc.
  std::unique_ptr<const detail::table_decoder> decoder_of_table(std::uint32_t index) const {
    return decoding_->decoder_at(header_.bytes_of(blob_, section_kind::tables), table_positions_[index], map());
  }

 private:
  const std::byte* section_bytes(section_kind kind) const noexcept { return blob_.data() + header_.at(kind).offset; }

  result<void> check_sections();
  result<void> check_index() const;
  result<void> check_nibbles();

  std::uint64_t first_escape(std::uint64_t index) const noexcept {
    return load_le<std::uint64_t>(section_bytes(section_kind::nibbles) + nibble_list::bytes + 8 * index);
  }

  std::span<const std::byte> blob_;
  const detail::coder_decoding* decoding_ = nullptr;
  stream_header header_;
  nibble_list nibbles_;
  std::vector<std::uint32_t> table_positions_;  ///< of each record in the tables section
};

/// Returns the expected number of bytes of a stream that are not words or raw bits, for one table of 64 symbols:
/// header, table, index, padding, and the 24 bits of each lane's state that carry no information. Serves to plan a
/// rate.
constexpr std::uint64_t stream_overhead_bytes(std::uint64_t symbols, unsigned chunk_bits) noexcept {
  constexpr std::uint64_t header_and_padding = 64 + 5 * 24 + 5 * 32 + stream_tail_bytes;
  constexpr std::uint64_t table = 4 + 64 * 3;
  const std::uint64_t chunks = chunks_of(symbols, chunk_bits);
  return header_and_padding + table + (chunks + 1) * chunk_record::bytes + chunks * lane_count * 3;
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/stream/stream_view-inl.hpp"
#endif
