#pragma once
/// \file
/// Definition of parsing a stream. Everything that later code relies on is checked here.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

ECQ_INLINE result<void> encoded_stream::verify(const cpu& backend) const {
  constexpr std::size_t run = 4;
  const auto chunks = static_cast<std::size_t>(chunk_count());
  return parallel_for(backend, (chunks + run - 1) / run, [&](std::size_t index) {
    return verify_chunks(index * run, (std::min)(run, chunks - index * run), backend.isa);
  });
}

ECQ_INLINE element_join encoded_stream::join() const {
  if (pairs() && format()) return {};
  if (pairs()) return {.bits = header_.raw_bits(), .pairs = &nibbles_};
  return visit_split(format(), [&]<class Split>() { return element_join::of<Split>(header_.raw_bits()); });
}

ECQ_INLINE chunk_bytes encoded_stream::chunk(std::uint64_t index) const noexcept {
  const std::uint64_t first = record(index).first_word;
  const std::uint64_t state_bytes = chunk_count() == 0 ? 0 : header_.at(section_kind::states).size / chunk_count();
  return {section_bytes(section_kind::states) + index * state_bytes, section_bytes(section_kind::words) + 2 * first,
          static_cast<std::uint32_t>(record(index + 1).first_word - first), coded_in(index)};
}

ECQ_INLINE result<void> encoded_stream::verify_chunks(std::uint64_t first, std::size_t count,
                                                      instruction_set isa) const {
  if (count == 0) return {};
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
      return detail::stream_error(errc::checksum_mismatch, "chunk ", first, " does not match its checksum");
    }
  }
  return {};
}

ECQ_INLINE result<void> encoded_stream::check_sections() {
  const auto expect = [&](section_kind kind, const char* name, std::uint64_t bytes) -> result<void> {
    if (header_.at(kind).size == bytes) return {};
    return detail::stream_error(errc::corrupt, name, " of ", header_.at(kind).size, " bytes, expected ", bytes);
  };
  ECQ_CHECK(expect(section_kind::chunk_index, "chunk index", (header_.chunks + 1) * chunk_record::bytes));
  ECQ_CHECK(expect(section_kind::states, "states", header_.chunks * decoding_->state_bytes));
  ECQ_CHECK(expect(section_kind::raw_bits, "raw bits", raw_bytes(header_.symbols, header_.raw_bits())));
  ECQ_CHECK(expect(section_kind::words, "words", record(chunk_count()).first_word * 2));
  if (const unsigned used = static_cast<unsigned>(header_.symbols % 8 * header_.raw_bits() % 8); used != 0) {
    const std::byte last = header_.bytes_of(blob_, section_kind::raw_bits).back();
    if ((last >> used) != std::byte{0}) return detail::stream_error(errc::corrupt, "bits after the last raw bit");
  }
  if (header_.tables > max_stream_tables) {
    return detail::stream_error(errc::limit_exceeded, header_.tables, " tables, more than 65536");
  }
  if (header_.tables > header_.chunks) {
    return detail::stream_error(errc::corrupt, header_.tables, " tables for ", header_.chunks, " chunks");
  }
  const auto section = header_.bytes_of(blob_, section_kind::tables);
  std::size_t position = 0;
  table_positions_.reserve(header_.tables);
  for (std::uint32_t i = 0; i < header_.tables; ++i) {
    table_positions_.push_back(static_cast<std::uint32_t>(position));
    if (auto checked = decoding_->check_table(section, position, map()); !checked) {
      return std::move(checked).error().within("stream: table ", i);
    }
  }
  return expect(section_kind::tables, "tables", position);
}

ECQ_INLINE result<void> encoded_stream::check_index() const {
  chunk_record here = record(0);
  if (here.first_word != 0) return detail::stream_error(errc::corrupt, "the words do not begin at 0");
  for (std::uint64_t i = 0; i < chunk_count(); ++i) {
    const chunk_record next = record(i + 1);
    if (next.first_word < here.first_word || next.first_word - here.first_word > coded_in(i)) {
      return detail::stream_error(errc::corrupt, "chunk ", i, " of ", coded_in(i),
                                  " symbols has an invalid range of words, ", here.first_word, " to ", next.first_word);
    }
    if (here.table >= table_count() || here.flags != 0) {
      return detail::stream_error(errc::corrupt, "chunk ", i, " has invalid table ", here.table, " of ", table_count(),
                                  " or flags ", here.flags);
    }
    here = next;
  }
  if (here.checksum == 0 && here.table == 0 && here.flags == 0) return {};
  return detail::stream_error(errc::corrupt, "the end record of the chunk index holds more than the number of words");
}

ECQ_INLINE result<void> encoded_stream::check_nibbles() {
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
    return detail::stream_error(errc::corrupt, "nibbles of ", section.size(), " bytes, expected ", expected);
  }
  if (expected <= nibble_list::bytes) {
    if (escapes == 0) return {};
    return detail::stream_error(errc::corrupt, escapes, " escapes for symbols that need none");
  }
  std::uint64_t here = first_escape(0);
  bool valid = here == 0;
  for (std::uint64_t i = 0; valid && i < chunk_count(); ++i) {
    const std::uint64_t next = first_escape(i + 1);
    valid = next >= here && next - here <= symbols_in(i);
    here = next;
  }
  if (valid && here == escapes) return {};
  return detail::stream_error(errc::corrupt, "chunks do not divide the ", escapes, " escapes correctly");
}

ECQ_INLINE result<encoded_stream> encoded_stream::parse(std::span<const std::byte> blob, coder_set accepted) {
  const auto failed = [&] { return detail::stream_error(errc::out_of_memory, "allocation failed"); };
  return detail::or_out_of_memory(failed, [&]() -> result<encoded_stream> {
    encoded_stream stream;
    stream.blob_ = blob;
    ECQ_TRY(header, stream_header::read(blob));
    stream.header_ = header;
    stream.decoding_ = accepted.find(stream.coder());
    if (stream.decoding_ == nullptr) {
      return detail::stream_error(errc::unsupported, "coder ", static_cast<unsigned>(stream.coder()), " (",
                                  to_string(stream.coder()), "), but this program decodes only ", accepted.names());
    }
    // The index has 16 bytes per chunk, so an index of the right size bounds the number of chunks by the size of the
    // blob.
    ECQ_CHECK(stream.check_sections());
    ECQ_CHECK(stream.check_index());
    ECQ_CHECK(stream.check_nibbles());
    return stream;
  });
}

}  // namespace ecq
