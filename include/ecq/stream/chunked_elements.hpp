#pragma once
/// \file
/// Elements as the encoder sees them: cut into chunks and classes, their symbols found, paired and counted.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/limits.hpp"
#include "ecq/stream/pair_io.hpp"
#include "ecq/stream/stream_header.hpp"
#include "ecq/stream/stream_options.hpp"

namespace ecq::detail {

/// How symbols become pairs.
struct symbol_pairing {
  explicit symbol_pairing(const nibble_list& chosen) : list(chosen), nibbles(chosen.nibbles()) {}

  nibble_list list;
  std::array<std::uint8_t, 256> nibbles;  ///< of each symbol
};

/// The memory in which the symbols of a chunk lie, if not among its elements.
struct symbol_buffer {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> pairs;
  std::vector<std::byte> escapes;  ///< of the pairs
};

/// Chunks of elements as the encoder sees them: their symbols and, by number from 0, their tables.
template <element_split Split>
struct chunked_elements {
  static constexpr std::size_t element_bytes = sizeof(typename Split::element);

  std::span<const std::byte> bytes;  ///< of all elements
  unsigned chunk_bits = min_chunk_bits;
  std::vector<std::uint16_t> table_of_chunk = {};  ///< empty: all use table 0
  std::size_t tables = 0;
  std::optional<symbol_pairing> pairing = {};  ///< nothing: symbols are coded singly

  std::size_t size() const { return bytes.size() / element_bytes; }
  std::size_t chunks() const { return static_cast<std::size_t>(chunks_of(size(), chunk_bits)); }
  std::uint16_t table_of(std::size_t chunk) const {
    return table_of_chunk.empty() ? std::uint16_t{0} : table_of_chunk[chunk];
  }
  std::size_t size_of_chunk(std::size_t index) const {
    return (std::min)(std::size_t{1} << chunk_bits, size() - (index << chunk_bits));
  }
  const std::byte* chunk(std::size_t index) const { return bytes.data() + (index << chunk_bits) * element_bytes; }
  /// The symbols of a chunk: its codes themselves, or put into `buffer`.
  std::span<const std::uint8_t> symbols(std::size_t index, symbol_buffer& buffer) const {
    if constexpr (std::is_same_v<Split, byte_split>) {
      static_cast<void>(buffer);
      return {reinterpret_cast<const std::uint8_t*>(chunk(index)), size_of_chunk(index)};
    } else {
      buffer.symbols.resize(size_of_chunk(index));
      extract_symbols<Split>(chunk(index), buffer.symbols.size(), buffer.symbols.data());
      return buffer.symbols;
    }
  }
  /// What the coder sees of a chunk: symbols, or pairs of them.
  std::span<const std::uint8_t> coded(std::size_t index, symbol_buffer& buffer) const {
    const auto single = symbols(index, buffer);
    if (!pairing) return single;
    buffer.pairs.resize(static_cast<std::size_t>(pairs_of(single.size())));
    buffer.escapes.clear();
    pair_symbols(pairing->list, pairing->nibbles, single, buffer.pairs.data(), buffer.escapes);
    return buffer.pairs;
  }
  /// What a coder does with it, given what it would do with bytes of the same values.
  split_map map(split_map planned) const { return pairing ? pair_map : narrowed<Split>(planned); }
  /// The most raw bits of symbols, below all of them, that a plan may have.
  unsigned most_raw_bits() const { return pairing ? 0 : 7; }
};

template <element_split Split>
result<chunked_elements<Split>> cut_into_chunks(std::span<const std::byte> elements, const stream_options& options) {
  chunked_elements<Split> chunked{.bytes = elements};
  if (elements.size() % chunked.element_bytes != 0) {
    return stream_error(errc::invalid_argument, std::to_string(elements.size()) + " bytes for elements of " +
                                                    std::to_string(chunked.element_bytes));
  }
  if (chunked.size() > max_stream_symbols) {
    return stream_error(errc::limit_exceeded, std::to_string(chunked.size()) + " symbols, more than 2^43");
  }
  const unsigned bits = options.chunk_bits != 0 ? options.chunk_bits : default_chunk_bits(chunked.size());
  if (bits < min_chunk_bits || bits > max_chunk_bits) {
    return stream_error(errc::invalid_argument, "chunks of 2^" + std::to_string(bits) + " symbols, not 2^10..2^18");
  }
  chunked.chunk_bits = bits;
  if (options.class_of_chunk.empty()) {
    chunked.tables = elements.empty() ? 0 : 1;
    return chunked;
  }
  if (options.class_of_chunk.size() != chunked.chunks()) {
    return stream_error(errc::invalid_argument, "classes of " + std::to_string(options.class_of_chunk.size()) +
                                                    " chunks for " + std::to_string(chunked.chunks()));
  }
  std::vector<std::uint16_t> classes(options.class_of_chunk.begin(), options.class_of_chunk.end());
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (classes.size() > max_encoder_tables) {
    return stream_error(errc::limit_exceeded, std::to_string(classes.size()) + " classes of chunks, more than 256");
  }
  chunked.tables = classes.size();
  chunked.table_of_chunk.reserve(chunked.chunks());
  for (const std::uint16_t wanted : options.class_of_chunk) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), wanted);
    chunked.table_of_chunk.push_back(static_cast<std::uint16_t>(at - classes.begin()));
  }
  return chunked;
}

template <element_split Split>
result<std::vector<histogram>> count_classes(const cpu& backend, const chunked_elements<Split>& chunked) {
  std::vector<histogram> classes(chunked.tables);
  std::mutex guard;
  ECQ_CHECK(parallel_for(backend, chunked.chunks(), [&](std::size_t index) -> result<void> {
    histogram part;
    symbol_buffer buffer;
    part.add(chunked.coded(index, buffer));
    const std::scoped_lock lock(guard);
    classes[chunked.table_of(index)] += part;
    return {};
  }));
  return classes;
}

/// Chooses the nibbles of symbols of which `counts` says how often they occur: they are coded in pairs from here on.
template <element_split Split>
void choose_nibbles(const histogram& counts, chunked_elements<Split>& chunked) {
  chunked.pairing.emplace(Split::symbol_bits > 4 ? nibble_list::of(counts, Split::symbol_bits) : nibble_list{});
}

/// How often pairs occur, at least once, among symbols that occur as `counts` says, each whatever comes before it.
inline histogram pair_counts(const symbol_pairing& pairing, const histogram& counts) {
  std::array<std::uint64_t, 16> nibbles{};
  for (std::size_t symbol = 0; symbol < 256; ++symbol) nibbles[pairing.nibbles[symbol]] += counts.counts[symbol];
  nibbles[0] = (std::max)(nibbles[0], std::uint64_t{1});  // beside an odd last symbol
  const auto total = static_cast<double>(counts.total());
  histogram pairs;
  for (std::size_t pair = 0; pair < 256; ++pair) {
    const double both = static_cast<double>(nibbles[pair % 16]) * static_cast<double>(nibbles[pair / 16]);
    if (both != 0) pairs.counts[pair] = (std::max)(static_cast<std::uint64_t>(both / total), std::uint64_t{1});
  }
  return pairs;
}

}  // namespace ecq::detail
