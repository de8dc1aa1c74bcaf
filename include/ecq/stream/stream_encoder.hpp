#pragma once
/// \file
/// Encoding elements into a stream on the CPU. The bytes depend on elements and options alone, not on the threads.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/parallel_in_order.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

/// Stands where an entropy_coder does for the one among them whose stream is smallest by its exact size.
template <entropy_coder... Coders>
struct smallest_of {};

/// All coders, the fastest to decode first.
using smallest_any = smallest_of<rans, huffman, tans>;

/// Whether a type is a smallest_of.
template <class Type>
inline constexpr bool is_smallest_of = false;
template <entropy_coder... Coders>
inline constexpr bool is_smallest_of<smallest_of<Coders...>> = true;

/// What streams can be encoded with.
template <class Type>
concept stream_coder = entropy_coder<Type> || is_smallest_of<Type>;

namespace detail {

/// Encoders that take several chunks at once: counts[i] is what encode(codes[i], states[i], words[i]) would return.
template <class Encoder>
concept encodes_many =
    requires(const Encoder encoder, std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
             std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts, instruction_set isa) {
      { encoder.encode_many(codes, states, words, counts, isa) } -> std::same_as<void>;
    };

/// Two chunks, coded side by side, on their way into a stream.
template <entropy_coder Coder>
struct coded_pair {
  symbol_buffer symbols[2];
  std::vector<std::uint16_t> buffers[2];
  std::size_t lengths[2] = {};  ///< words, at the end of each buffer
  std::array<std::byte, Coder::state_bytes> states[2];
};

/// Codes chunks 2 * pair and, if there is one, the next.
template <entropy_coder Coder, element_split Split>
void encode_pair(const std::vector<typename Coder::encoder>& encoders, const chunked_elements<Split>& chunked,
                 std::size_t pair, instruction_set isa, coded_pair<Coder>& coded) {
  if constexpr (std::same_as<Coder, raw>) return;
  const std::size_t first = 2 * pair;
  const std::size_t members = (std::min)(chunked.chunks() - first, std::size_t{2});
  std::span<const std::uint8_t> symbols[2];
  std::span<std::uint16_t> targets[2];
  std::byte* states[2];
  for (std::size_t i = 0; i < members; ++i) {
    symbols[i] = chunked.coded(first + i, coded.symbols[i]);
    coded.buffers[i].resize(symbols[i].size());
    targets[i] = coded.buffers[i];
    states[i] = coded.states[i].data();
  }
  const auto encode = [&](std::size_t from, std::size_t many) {
    const auto& encoder = encoders[chunked.table_of(first + from)];
    if constexpr (encodes_many<typename Coder::encoder>) {
      encoder.encode_many({symbols + from, many}, states + from, {targets + from, many}, {coded.lengths + from, many},
                          isa);
    } else {
      for (std::size_t i = from; i < from + many; ++i) {
        coded.lengths[i] = encoder.encode(symbols[i], states[i], targets[i]);
      }
    }
  };
  if (members == 2 && chunked.table_of(first) == chunked.table_of(first + 1)) {
    encode(0, 2);
  } else {
    for (std::size_t i = 0; i < members; ++i) encode(i, 1);
  }
}

inline void append_words(std::span<const std::uint16_t> words, std::vector<std::byte>& bytes) {
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

template <entropy_coder Coder, element_split Split>
result<std::vector<std::byte>> encode_chunks(const cpu& backend, const chunked_elements<Split>& chunked,
                                             std::optional<dtype> format,
                                             const coding_plan<typename Coder::table>& plan) {
  const std::size_t chunks = chunked.chunks();
  std::vector<std::byte> tables;
  for (const auto& table : plan.tables) table.append_to(tables);
  std::vector<typename Coder::encoder> encoders;
  encoders.reserve(plan.tables.size());
  for (const auto& table : plan.tables) encoders.emplace_back(table, chunked.map(plan.map));

  stream_header header;
  header.coder = Coder::id;
  header.format = format;
  header.pairs = chunked.pairing.has_value();
  header.map = chunked.map(plan.map);
  const unsigned bits_kept = header.raw_bits();
  header.chunk_bits = chunked.chunk_bits;
  header.symbols = chunked.size();
  header.chunks = chunks;
  header.tables = static_cast<std::uint32_t>(plan.tables.size());
  header.at(section_kind::tables).size = tables.size();
  header.at(section_kind::chunk_index).size = (header.chunks + 1) * chunk_record::bytes;
  header.at(section_kind::states).size = header.chunks * Coder::state_bytes;
  header.at(section_kind::raw_bits).size = raw_bytes(header.symbols, bits_kept);
  // The words come behind a directory that lists them: their number is known only when they are there.
  header.at(section_kind::words).size = 2;
  const bool nibbles_listed = header.pairs && Split::symbol_bits > 4;
  const bool escaping = header.pairs && chunked.pairing->list.has_escape();
  if (nibbles_listed) {
    header.at(section_kind::nibbles).size = nibble_list::bytes + (escaping ? 8 * (header.chunks + 1) : 0);
  }
  header.lay_out();
  const std::uint64_t words_offset = header.at(section_kind::words).offset;
  std::vector<std::byte> blob;
  blob.reserve(static_cast<std::size_t>(words_offset + plan.bits / 8 + plan.bits / 1024 + chunks * 2 + 1024));

  // Raw bits and words are appended in the order in which they lie, by one thread while others code: memory that
  // nobody has touched yet costs as much time as coding, so it is not filled with zeros first.
  if (bits_kept != 0) {
    blob.resize(static_cast<std::size_t>(header.at(section_kind::raw_bits).offset));
    using packed_bits = std::vector<std::byte>;
    ECQ_CHECK(parallel_in_order<packed_bits>(
        backend, chunks,
        [&](std::size_t chunk, packed_bits& packed) {
          const std::size_t size = chunked.size_of_chunk(chunk);
          packed.resize(static_cast<std::size_t>(raw_bytes(size, bits_kept)));
          pack_raw_bits<Split>(bits_kept, chunked.chunk(chunk), size, packed.data());
        },
        [&](std::size_t, const packed_bits& packed) { blob.insert(blob.end(), packed.begin(), packed.end()); }));
  }
  blob.resize(static_cast<std::size_t>(words_offset));
  std::uint64_t words = 0;
  std::vector<std::byte> escapes;
  std::vector<std::byte> escape_index(escaping ? 8 * (chunks + 1) : 0);
  ECQ_CHECK(parallel_in_order<coded_pair<Coder>>(
      backend, (chunks + 1) / 2,
      [&](std::size_t pair, coded_pair<Coder>& coded) { encode_pair(encoders, chunked, pair, backend.isa, coded); },
      [&](std::size_t pair, const coded_pair<Coder>& coded) {
        for (std::size_t i = 0; i < 2 && 2 * pair + i < chunks; ++i) {
          const std::size_t chunk = 2 * pair + i;
          append_words(std::span(coded.buffers[i]).last(coded.lengths[i]), blob);
          std::copy(coded.states[i].begin(), coded.states[i].end(),
                    blob.data() + header.at(section_kind::states).offset + chunk * Coder::state_bytes);
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
  place(tables, header.at(section_kind::tables).offset);
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
              static_cast<std::size_t>(header.at(section_kind::states).offset) + (first + i) * Coder::state_bytes,
              Coder::state_bytes),
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

/// errc::invalid_argument unless one table for the shared counts, if there are any, can code what was counted.
inline result<void> check_shared_counts(const stream_options& options, std::span<const histogram> classes) {
  if (options.shared_counts == nullptr) return {};
  if (!options.class_of_chunk.empty()) {
    return stream_error(errc::invalid_argument, "shared counts are for one table, and chunks have classes");
  }
  const auto& shared = options.shared_counts->counts;
  const auto too_many = [](std::uint64_t count) { return count > max_stream_symbols; };
  if (std::any_of(shared.begin(), shared.end(), too_many) || too_many(options.shared_counts->total())) {
    return stream_error(errc::limit_exceeded, "shared counts of more than 2^43 codes");
  }
  for (const histogram& counted : classes) {
    for (std::size_t code = 0; code < 256; ++code) {
      if (counted.counts[code] == 0 || shared[code] != 0) continue;
      return stream_error(errc::invalid_argument,
                          "code " + std::to_string(code) + " occurs, but not among the shared counts");
    }
  }
  return {};
}

/// The plan of `Coder` for all classes, or for the shared counts; its expectation is of the codes at hand.
template <entropy_coder Coder>
auto plan_of(const stream_options& options, std::span<const histogram> classes, unsigned most_raw_bits) {
  if (options.shared_counts == nullptr || classes.empty()) return Coder::plan(classes, most_raw_bits);
  auto plan = Coder::plan({options.shared_counts, 1}, most_raw_bits);
  const double share = static_cast<double>(classes[0].total()) / static_cast<double>(options.shared_counts->total());
  plan.bits = static_cast<std::uint64_t>(static_cast<double>(plan.bits) * (std::min)(share, 1.0));
  return plan;
}

/// The stream of the one coder.
template <element_split Split, entropy_coder Coder>
result<std::vector<std::byte>> encode_by(Coder, const cpu& backend, const chunked_elements<Split>& chunked,
                                         std::optional<dtype> format, const stream_options& options,
                                         std::span<const histogram> classes) {
  return encode_chunks<Coder>(backend, chunked, format, plan_of<Coder>(options, classes, chunked.most_raw_bits()));
}

/// The smallest of the streams of several coders.
template <element_split Split, entropy_coder... Coders>
result<std::vector<std::byte>> encode_by(smallest_of<Coders...>, const cpu& backend,
                                         const chunked_elements<Split>& chunked, std::optional<dtype> format,
                                         const stream_options& options, std::span<const histogram> classes) {
  std::vector<std::byte> best;
  const auto attempt = [&]<class Coder>(Coder) -> result<void> {
    const auto plan = plan_of<Coder>(options, classes, chunked.most_raw_bits());
    const std::uint64_t raw_bits = chunked.map(plan.map).bits + low_bits<Split>;
    const std::uint64_t expected = plan.bits / 8 + raw_bytes(chunked.size(), static_cast<unsigned>(raw_bits)) +
                                   chunked.chunks() * Coder::state_bytes;
    // What a plan expects of the codes that it is made for is right within a hundredth: clear losers need not be
    // encoded.
    if (options.shared_counts == nullptr && !best.empty() && expected > best.size() + best.size() / 100) return {};
    ECQ_TRY(coded, encode_chunks<Coder>(backend, chunked, format, plan));
    if (best.empty() || coded.size() + coded.size() / 1000 * options.margin < best.size()) best = std::move(coded);
    return {};
  };
  result<void> outcome;
  ((outcome = attempt(Coders{}), outcome.has_value()) && ...);
  if (!outcome) return std::move(outcome).error();
  return best;
}

/// As encode_stream for elements of `Split`; `format` is the format that Split stands for.
template <stream_coder Coder, element_split Split>
result<std::vector<std::byte>> encode_split(const cpu& backend, std::span<const std::byte> elements,
                                            std::optional<dtype> format, const stream_options& options) {
  try {
    ECQ_TRY(chunked, cut_into_chunks<Split>(elements, options));
    ECQ_TRY(classes, count_classes(backend, chunked));
    ECQ_CHECK(check_shared_counts(options, classes));
    stream_options how = options;
    histogram shared_pairs;
    if (options.pairs && !std::same_as<Coder, raw> && !classes.empty()) {
      histogram all;
      for (const histogram& counted : classes) all += counted;
      choose_nibbles(options.shared_counts != nullptr ? *options.shared_counts : all, chunked);
      if (options.shared_counts != nullptr) {
        shared_pairs = pair_counts(*chunked.pairing, *options.shared_counts);
        how.shared_counts = &shared_pairs;
      }
      ECQ_TRY(of_pairs, count_classes(backend, chunked));
      classes = std::move(of_pairs);
    }
    auto coded = encode_by<Split>(Coder{}, backend, chunked, format, how, classes);
    if constexpr (!std::same_as<Coder, raw>) {
      chunked.tables = (std::min)(chunked.tables, std::size_t{1});
      chunked.table_of_chunk.clear();
      chunked.pairing.reset();
      if (!coded) return coded;
      const std::uint64_t stored =
          stream_header::raw_stream_bytes(chunked.size(), chunked.chunk_bits, chunked.element_bytes);
      if (coded->size() >= stored) {
        coded = std::vector<std::byte>();
        return encode_chunks<raw>(backend, chunked, format, raw::plan(std::vector<histogram>(chunked.tables)));
      }
    }
    return coded;
  } catch (const std::bad_alloc&) {
    return stream_error(errc::out_of_memory, "allocation failed");
  }
}

}  // namespace detail

/// Encodes `codes` into a stream; stored raw where `Coder` would not make it smaller. Beside the stream itself this
/// takes 1 MiB a thread (with chunks of 2^18 codes 4 MiB) and up to 192 KiB a class of chunks, and with smallest_of
/// another stream. `Coder` is an entropy_coder, or smallest_any for whichever is smallest. Errors: invalid_argument
/// (options), limit_exceeded, out_of_memory.
template <stream_coder Coder = rans>
result<std::vector<std::byte>> encode_stream(const cpu& backend, std::span<const std::uint8_t> codes,
                                             const stream_options& options = {}) {
  return detail::encode_split<Coder, byte_split>(backend, std::as_bytes(codes), std::nullopt, options);
}

/// Encodes weights of a floating-point `format` without loss: their exponents by `Coder`, sign and mantissa raw.
/// `elements` are their bits in the machine's byte order, at any address. As encode_stream in all else.
template <stream_coder Coder = rans>
result<std::vector<std::byte>> encode_exponents(const cpu& backend, dtype format, std::span<const std::byte> elements,
                                                const stream_options& options = {}) {
  if (!is_floating_point(format)) {
    return detail::stream_error(errc::invalid_argument,
                                "weights of " + std::string(to_string(format)) + " have no exponents");
  }
  return visit_split(
      format, [&]<class Split>() { return detail::encode_split<Coder, Split>(backend, elements, format, options); });
}

}  // namespace ecq
