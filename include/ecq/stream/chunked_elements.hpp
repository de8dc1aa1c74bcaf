#pragma once
/// \file
/// Elements as the encoder sees them: cut into chunks and classes, with their symbols found, paired and counted.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/limits.hpp"
#include "ecq/stream/stream_header.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/symbol_pairing.hpp"

namespace ecq::detail {

/// Memory for the symbols of a chunk, if they do not lie among its elements.
struct symbol_buffer {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> pairs;
  std::vector<std::byte> escapes;  ///< escapes of the pairs
};

/// Chunks of elements as the encoder sees them: their symbols, and their tables by number from 0.
struct chunked_elements {
  std::span<const std::byte> bytes;  ///< bytes of all elements
  std::optional<dtype> format;       ///< format of weights whose exponents are the symbols; nothing: codes of one byte
  std::size_t element_bytes = 1;
  unsigned chunk_bits = min_chunk_bits;
  std::vector<std::uint16_t> table_of_chunk;  ///< empty: all use table 0
  std::size_t tables = 0;
  std::optional<symbol_pairing> pairing;  ///< nothing: symbols are coded singly
  std::optional<ecq::trellis> trellis;    ///< of which `bytes` are indices

  std::size_t size() const { return bytes.size() / element_bytes; }
  std::size_t chunks() const { return static_cast<std::size_t>(chunks_of(size(), chunk_bits)); }
  std::uint16_t table_of(std::size_t chunk) const {
    return table_of_chunk.empty() ? std::uint16_t{0} : table_of_chunk[chunk];
  }
  std::size_t size_of_chunk(std::size_t index) const {
    return (std::min)(std::size_t{1} << chunk_bits, size() - (index << chunk_bits));
  }
  const std::byte* chunk(std::size_t index) const { return bytes.data() + (index << chunk_bits) * element_bytes; }
  /// The symbols of chunk `index`: its codes in place, or symbols extracted into `buffer`.
  std::span<const std::uint8_t> symbols(std::size_t index, symbol_buffer& buffer) const;
  /// The bytes that the coder sees of chunk `index`: symbols, or pairs of them.
  std::span<const std::uint8_t> coded(std::size_t index, symbol_buffer& buffer) const;
  /// Packs the low `bits` bits of each element of chunk `index`, one after another, into `packed`.
  void pack_raw_bits(std::size_t index, unsigned bits, std::vector<std::byte>& packed) const;

  /// The number of bits of a symbol.
  unsigned symbol_bits() const {
    return visit_split(format, [&]<class Split>() { return unsigned{Split::symbol_bits}; });
  }
  /// The number of bits of every element that no coder sees.
  unsigned never_coded_bits() const { return static_cast<unsigned>(8 * element_bytes) - symbol_bits(); }
  /// The split map of these elements, given the map that the coder planned for bytes of the same values.
  split_map map(split_map planned) const {
    if (pairing) return pair_map;
    return visit_split(format, [&]<class Split>() { return narrowed<Split>(planned); });
  }
};

/// Fails with errc::invalid_argument unless chunks may have 2^bits symbols; 0 stands for the length of the stream.
result<void> check_chunk_bits(unsigned bits);

/// Cuts elements into chunks. Their symbols are exponents of `format` or, without a format, the codes themselves. With
/// a trellis, their indices have yet to take their place.
/// Errors: invalid_argument, limit_exceeded.
result<chunked_elements> cut_into_chunks(std::span<const std::byte> elements, std::optional<dtype> format,
                                         const stream_options& options);

/// The indices of codes that have been cut into chunks with a trellis. Memory: a byte a code. Errors: invalid_argument,
/// with the position of the first code that does not lie on the trellis.
result<std::vector<std::byte>> indices_of(const cpu& backend, const chunked_elements& codes);

/// The histogram of all classes together.
inline histogram sum_of(std::span<const histogram> classes) {
  histogram sum;
  for (const histogram& each : classes) sum += each;
  return sum;
}

/// The histogram of each class of chunks.
result<std::vector<histogram>> count_classes(const cpu& backend, const chunked_elements& chunked);

/// Chooses nibbles for symbols that occur as often as `counts` says; from then on, `chunked` codes them in pairs.
void choose_nibbles(const histogram& counts, chunked_elements& chunked);

/// How often each pair is expected to occur, at least once if it can occur, among symbols that occur as `counts` says,
/// independently of each other.
histogram pair_counts(const symbol_pairing& pairing, const histogram& counts);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/stream/chunked_elements-inl.hpp"
#endif
