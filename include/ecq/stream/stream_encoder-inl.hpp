#pragma once
/// \file
/// Definition of encoding a stream: it lays out sections, codes chunks in parallel and appends them in order.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/parallel_in_order.hpp"
#include "ecq/stream/narrow_pairs.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq::detail {

/// Chunks that are coded side by side, before they go into a stream.
struct coded_chunks {
  static constexpr std::size_t most = 4;

  symbol_buffer symbols[most];
  std::vector<std::uint16_t> buffers[most];
  std::size_t lengths[most] = {};  ///< number of words, which are at the end of each buffer
  std::vector<std::byte> states[most];
};

/// Returns the number of chunks that a task codes: as many as kernels take side by side, unless threads would be left
/// without chunks.
ECQ_INLINE std::size_t chunks_of_task(std::size_t chunks, std::size_t threads) {
  return std::clamp<std::size_t>((chunks + threads - 1) / threads, 2, coded_chunks::most);
}

/// Codes `count` chunks from `first` on. Neighbouring chunks with the same table are coded at once.
ECQ_INLINE void encode_together(const stream_coding& coding, const chunked_elements& chunked, std::size_t first,
                                std::size_t count, instruction_set isa, coded_chunks& coded) {
  if (!coding.encoders) return;
  std::span<const std::uint8_t> symbols[coded_chunks::most];
  std::span<std::uint16_t> targets[coded_chunks::most];
  std::byte* states[coded_chunks::most];
  for (std::size_t i = 0; i < count; ++i) {
    symbols[i] = chunked.coded(first + i, coded.symbols[i]);
    coded.buffers[i].resize(symbols[i].size());
    coded.states[i].resize(coding.state_bytes);
    targets[i] = coded.buffers[i];
    states[i] = coded.states[i].data();
  }
  for (std::size_t from = 0; from < count;) {
    const std::uint16_t table = chunked.table_of(first + from);
    std::size_t many = 1;
    while (from + many < count && chunked.table_of(first + from + many) == table) ++many;
    coding.encoders->encode(table, {symbols + from, many}, states + from, {targets + from, many},
                            {coded.lengths + from, many}, isa);
    from += many;
  }
}

ECQ_INLINE void append_words(std::span<const std::uint16_t> words, std::vector<std::byte>& bytes) {
  if constexpr (std::endian::native == std::endian::little) {
    const auto same = std::as_bytes(words);
    bytes.insert(bytes.end(), same.begin(), same.end());
  } else {
    bytes.resize(bytes.size() + words.size_bytes());
    std::byte* to = bytes.data() + bytes.size() - words.size_bytes();
    for (const std::uint16_t word : words) {
      store_le(to, word);
      to += 2;
    }
  }
}

ECQ_INLINE result<std::vector<std::byte>> encode_chunks(const cpu& backend, const chunked_elements& chunked,
                                                        const stream_coding& coding) {
  const std::size_t chunks = chunked.chunks();
  stream_header header;
  header.coder = coding.coder;
  header.format = chunked.format;
  header.pairs = chunked.pairing.has_value();
  if (header.pairs) header.pairs_raw_bits = chunked.pairing->raw_bits;
  header.map = coding.map;
  const unsigned bits_kept = header.raw_bits();
  header.trellis = chunked.trellis;
  header.chunk_bits = chunked.chunk_bits;
  header.symbols = chunked.size();
  header.chunks = chunks;
  header.tables = coding.table_count;
  header.at(section_kind::tables).size = coding.tables.size();
  header.at(section_kind::chunk_index).size = (header.chunks + 1) * chunk_record::bytes;
  header.at(section_kind::states).size = header.chunks * coding.state_bytes;
  header.at(section_kind::raw_bits).size = raw_bytes(header.symbols, bits_kept);
  // The directory lists the words, so their section needs a size, but their number is known only once they are coded.
  header.at(section_kind::words).size = 2;
  const bool nibbles_listed = header.pairs && chunked.symbol_bits() > 4;
  const bool escaping = header.pairs && chunked.pairing->list.has_escape();
  if (nibbles_listed) {
    header.at(section_kind::nibbles).size = nibble_list::bytes + (escaping ? 8 * (header.chunks + 1) : 0);
  }
  header.lay_out();
  const std::uint64_t words_offset = header.at(section_kind::words).offset;
  std::vector<std::byte> blob;
  blob.reserve(static_cast<std::size_t>(words_offset + coding.bits / 8 + coding.bits / 1024 + chunks * 2 + 1024));

  // One thread appends raw bits and words in order while others code. Touching new memory takes as much time as coding,
  // so the memory is not filled with zeros first.
  if (bits_kept != 0) {
    blob.resize(static_cast<std::size_t>(header.at(section_kind::raw_bits).offset));
    using packed_bits = std::vector<std::byte>;
    ECQ_CHECK(parallel_in_order<packed_bits>(
        backend, chunks,
        [&](std::size_t chunk, packed_bits& packed) { chunked.pack_raw_bits(chunk, bits_kept, packed); },
        [&](std::size_t, const packed_bits& packed) { blob.insert(blob.end(), packed.begin(), packed.end()); }));
  }
  blob.resize(static_cast<std::size_t>(words_offset));
  std::uint64_t words = 0;
  std::vector<std::byte> escapes;
  std::vector<std::byte> escape_index(escaping ? 8 * (chunks + 1) : 0);
  const std::size_t together = chunks_of_task(chunks, backend.thread_count());
  const auto count_of = [&](std::size_t task) { return (std::min)(together, chunks - task * together); };
  ECQ_CHECK(parallel_in_order<coded_chunks>(
      backend, (chunks + together - 1) / together,
      [&](std::size_t task, coded_chunks& coded) {
        encode_together(coding, chunked, task * together, count_of(task), backend.isa, coded);
      },
      [&](std::size_t task, const coded_chunks& coded) {
        for (std::size_t i = 0; i < count_of(task); ++i) {
          const std::size_t chunk = task * together + i;
          append_words(std::span(coded.buffers[i]).last(coded.lengths[i]), blob);
          std::copy(coded.states[i].begin(), coded.states[i].end(),
                    blob.data() + header.at(section_kind::states).offset + chunk * coding.state_bytes);
          const chunk_record record{.first_word = words, .table = chunked.table_of(chunk)};
          record.write(blob.data() + header.at(section_kind::chunk_index).offset + chunk * chunk_record::bytes);
          words += coded.lengths[i];
          if (escaping) {
            escapes.insert(escapes.end(), coded.symbols[i].escapes.begin(), coded.symbols[i].escapes.end());
            store_le(escape_index.data() + 8 * (chunk + 1), std::uint64_t{escapes.size()});
          }
        }
      }));
  header.at(section_kind::words).size = words * 2;
  header.at(section_kind::escapes).size = escapes.size();
  header.lay_out();
  blob.resize(static_cast<std::size_t>(header.total_bytes));
  const auto place = [&](std::span<const std::byte> bytes, std::uint64_t offset) {
    std::copy(bytes.begin(), bytes.end(), blob.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  place(coding.tables, header.at(section_kind::tables).offset);
  if (nibbles_listed) {
    const std::uint64_t offset = header.at(section_kind::nibbles).offset;
    place(std::as_bytes(std::span(chunked.pairing->list.symbols)), offset);
    place(escape_index, offset + nibble_list::bytes);
    place(escapes, header.at(section_kind::escapes).offset);
  }
  std::byte* index = blob.data() + header.at(section_kind::chunk_index).offset;
  chunk_record{.first_word = words}.write(index + header.chunks * chunk_record::bytes);
  ECQ_CHECK(parallel_for(backend, (chunks + max_checksums - 1) / max_checksums, [&](std::size_t task) -> result<void> {
    const std::size_t first = task * max_checksums;
    const std::size_t count = (std::min)(max_checksums, chunks - first);
    chunk_parts parts[max_checksums];
    std::uint32_t checksums[max_checksums];
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* at = index + (first + i) * chunk_record::bytes;
      const std::uint64_t first_word = chunk_record::read(at).first_word;
      const std::uint64_t next = chunk_record::read(at + chunk_record::bytes).first_word;
      const std::byte* const raw_bits = blob.data() + header.at(section_kind::raw_bits).offset +
                                        raw_bytes(std::uint64_t{first + i} << chunked.chunk_bits, bits_kept);
      parts[i] = {
          std::span(blob).subspan(
              static_cast<std::size_t>(header.at(section_kind::states).offset) + (first + i) * coding.state_bytes,
              coding.state_bytes),
          std::span(blob).subspan(static_cast<std::size_t>(header.at(section_kind::words).offset + first_word * 2),
                                  static_cast<std::size_t>(next - first_word) * 2),
          std::span(raw_bits, static_cast<std::size_t>(raw_bytes(chunked.size_of_chunk(first + i), bits_kept))),
          {}};
      if (escaping) {
        const std::byte* const begins = escape_index.data() + 8 * (first + i);
        const auto from = static_cast<std::size_t>(load_le<std::uint64_t>(begins));
        const auto to = static_cast<std::size_t>(load_le<std::uint64_t>(begins + 8));
        parts[i].back() = std::span<const std::byte>(escapes).subspan(from, to - from);
      }
    }
    chunk_checksums(first, {parts, count}, {checksums, count}, backend.isa);
    for (std::size_t i = 0; i < count; ++i) {
      store_le(index + (first + i) * chunk_record::bytes + chunk_record::checksum_at, checksums[i]);
    }
    return {};
  }));
  header.write(blob);
  return blob;
}

ECQ_INLINE result<void> check_shared_counts(const stream_options& options, std::span<const histogram> classes) {
  if (options.shared_counts == nullptr) return {};
  if (!options.class_of_chunk.empty()) {
    return stream_error(errc::invalid_argument, "shared counts need a single table, but chunks have classes");
  }
  const auto& shared = options.shared_counts->counts;
  const auto too_many = [](std::uint64_t count) { return count > max_stream_symbols; };
  if (std::any_of(shared.begin(), shared.end(), too_many) || too_many(options.shared_counts->total())) {
    return stream_error(errc::limit_exceeded, "shared counts of more than 2^43 codes");
  }
  for (const histogram& counted : classes) {
    for (std::size_t code = 0; code < 256; ++code) {
      if (counted.counts[code] == 0 || shared[code] != 0) continue;
      return stream_error(errc::invalid_argument, "code ", code, " occurs, but has no shared count");
    }
  }
  return {};
}

ECQ_INLINE result<std::vector<std::byte>> encode_elements(const cpu& backend, std::span<const std::byte> elements,
                                                          std::optional<dtype> format, const stream_options& options,
                                                          encode_function encode) {
  const auto failed = [&] { return stream_error(errc::out_of_memory, "allocation failed"); };
  return or_out_of_memory(failed, [&]() -> result<std::vector<std::byte>> {
    ECQ_TRY(chunked, cut_into_chunks(elements, format, options));
    std::vector<std::byte> indices;
    if (chunked.trellis) {
      ECQ_TRY(found, indices_of(backend, chunked));
      indices = std::move(found);
      chunked.bytes = indices;
    }
    ECQ_TRY(classes, count_classes(backend, chunked));
    ECQ_CHECK(check_shared_counts(options, classes));
    const auto store = [&] {
      const auto plan = raw::plan(std::vector<histogram>(chunked.tables));
      return encode_chunks(backend, chunked, stream_coding::of<raw>(plan, chunked.map(plan.map)));
    };
    if (encode == nullptr) return store();
    stream_options how = options;
    histogram shared_pairs;
    std::vector<histogram> pairs;  // of each class, if they have been counted
    if (options.pairs && !classes.empty()) {
      choose_nibbles(options.shared_counts != nullptr ? *options.shared_counts : sum_of(classes), chunked);
    } else if (!format && !classes.empty()) {
      ECQ_TRY(narrow, choose_narrow_pairing(backend, chunked, options, classes));
      chunked.pairing = narrow.pairing;
      pairs = std::move(narrow.pairs);
    }
    if (chunked.pairing) {
      if (options.shared_counts != nullptr) {
        shared_pairs = pair_counts(*chunked.pairing, *options.shared_counts);
        how.shared_counts = &shared_pairs;
      }
      if (pairs.empty()) {
        ECQ_TRY(of_pairs, count_classes(backend, chunked));
        pairs = std::move(of_pairs);
      }
      classes = std::move(pairs);
    }
    auto coded = encode(backend, chunked, how, classes);
    if (!coded) return coded;
    const std::uint64_t stored =
        stream_header::raw_stream_bytes(chunked.size(), chunked.chunk_bits, chunked.element_bytes);
    if (coded->size() < stored) return coded;
    *coded = std::vector<std::byte>();
    chunked.tables = (std::min)(chunked.tables, std::size_t{1});
    chunked.table_of_chunk.clear();
    chunked.pairing.reset();
    return store();
  });
}

}  // namespace ecq::detail
