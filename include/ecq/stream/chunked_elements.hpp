#pragma once
/// \file
/// Elements as the encoder sees them: cut into chunks and classes, with their symbols extracted, paired and counted.

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

/// Memory for the symbols of a chunk whose elements are not symbols themselves, and for its pairs.
struct symbol_buffer {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> pairs;
  std::vector<std::byte> escapes;  ///< escapes of the pairs
};

/// Elements as the encoder sees them, cut into chunks, each of which has a table, numbered from 0.
struct chunked_elements {
  std::span<const std::byte> bytes;  ///< bytes of all elements
  std::optional<dtype> format;       ///< format of weights whose exponents are the symbols; empty: codes of one byte
  std::size_t element_bytes = 1;
  unsigned chunk_bits = min_chunk_bits;
  std::vector<std::uint16_t> table_of_chunk;  ///< empty: all use table 0
  std::size_t tables = 0;
  std::optional<symbol_pairing> pairing;  ///< empty: symbols are coded singly
  std::optional<ecq::trellis> trellis;    ///< if there is one, `bytes` are its indices

  std::size_t size() const { return bytes.size() / element_bytes; }
  std::size_t chunks() const { return static_cast<std::size_t>(chunks_of(size(), chunk_bits)); }
  std::uint16_t table_of(std::size_t chunk) const {
    return table_of_chunk.empty() ? std::uint16_t{0} : table_of_chunk[chunk];
  }
  std::size_t size_of_chunk(std::size_t index) const {
    return (std::min)(std::size_t{1} << chunk_bits, size() - (index << chunk_bits));
  }
  const std::byte* chunk(std::size_t index) const { return bytes.data() + (index << chunk_bits) * element_bytes; }
  /// Returns the symbols of chunk `index`: its codes in place, or symbols extracted into `buffer`.
  std::span<const std::uint8_t> symbols(std::size_t index, symbol_buffer& buffer) const;
  /// Returns the bytes of chunk `index` that the coder sees: symbols, or pairs of them.
  std::span<const std::uint8_t> coded(std::size_t index, symbol_buffer& buffer) const;
  /// Packs the low `bits` bits of each element of chunk `index`, one after another, into `packed`.
  void pack_raw_bits(std::size_t index, unsigned bits, std::vector<std::byte>& packed) const;

  /// Returns the number of bits of a symbol.
  unsigned symbol_bits() const {
    return visit_split(format, [&]<class Split>() { return unsigned{Split::symbol_bits}; });
  }
  /// Returns the number of bits of every element that no coder sees.
  unsigned never_coded_bits() const { return static_cast<unsigned>(8 * element_bytes) - symbol_bits(); }
  /// Returns the split map of these elements, given the map that the coder planned for bytes of the same values.
  split_map map(split_map planned) const {
    if (pairing) return pair_map;
    return visit_split(format, [&]<class Split>() { return narrowed<Split>(planned); });
  }
};

/// Fails with errc::invalid_argument unless chunks may have 2^bits symbols. `bits` may also be 0, for chunks whose size
/// depends on the length of the stream.
result<void> check_chunk_bits(unsigned bits);

/// Cuts elements into chunks. Their symbols are exponents of `format` or, without a format, the codes themselves. With
/// a trellis, the caller must still replace the codes by their indices (indices_of). Errors: invalid_argument,
/// limit_exceeded.
result<chunked_elements> cut_into_chunks(std::span<const std::byte> elements, std::optional<dtype> format,
                                         const stream_options& options);

/// Returns the indices of codes that have been cut into chunks with a trellis. Takes a byte of memory per code. Errors:
/// invalid_argument, with the position of the first code that does not lie on the trellis.
result<std::vector<std::byte>> indices_of(const cpu& backend, const chunked_elements& codes);

/// Returns the histogram of all classes together.
inline histogram sum_of(std::span<const histogram> classes) {
  histogram sum;
  for (const histogram& each : classes) sum += each;
  return sum;
}

/// Returns the histogram of the coded bytes of each class of chunks.
result<std::vector<histogram>> count_classes(const cpu& backend, const chunked_elements& chunked);

/// Chooses nibbles for symbols that occur as often as `counts` says, and makes `chunked` code symbols in pairs from
/// then on.
void choose_nibbles(const histogram& counts, chunked_elements& chunked);

/// Returns how often each pair is expected to occur if symbols occur as `counts` says, independently of each other.
/// Pairs that can occur have a count of at least one.
histogram pair_counts(const symbol_pairing& pairing, const histogram& counts);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/stream/chunked_elements-inl.hpp"
#endif
