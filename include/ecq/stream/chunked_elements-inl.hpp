#pragma once
/// \file
/// Definition of elements as the encoder sees them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/entropy/trellis_walk.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/pair_io.hpp"

namespace ecq::detail {

ECQ_INLINE std::span<const std::uint8_t> chunked_elements::symbols(std::size_t index, symbol_buffer& buffer) const {
  if (!format) return {reinterpret_cast<const std::uint8_t*>(chunk(index)), size_of_chunk(index)};
  buffer.symbols.resize(size_of_chunk(index));
  visit_split(format, [&]<class Split>() {
    extract_symbols<Split>(chunk(index), buffer.symbols.size(), buffer.symbols.data());
  });
  return buffer.symbols;
}

ECQ_INLINE std::span<const std::uint8_t> chunked_elements::coded(std::size_t index, symbol_buffer& buffer) const {
  const auto single = symbols(index, buffer);
  if (!pairing) return single;
  buffer.pairs.resize(static_cast<std::size_t>(pairs_of(single.size())));
  buffer.escapes.clear();
  pair_symbols(*pairing, single, buffer.pairs.data(), buffer.escapes);
  return buffer.pairs;
}

ECQ_INLINE void chunked_elements::pack_raw_bits(std::size_t index, unsigned bits,
                                                std::vector<std::byte>& packed) const {
  const std::size_t size = size_of_chunk(index);
  packed.resize(static_cast<std::size_t>(raw_bytes(size, bits)));
  if (pairing && pairing->raw_bits != 0) {
    std::vector<std::uint8_t> raw(size);
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(chunk(index));
    std::transform(codes, codes + size, raw.begin(), [&](std::uint8_t code) { return pairing->raw[code]; });
    ecq::pack_raw_bits({bits}, raw, packed.data());
    return;
  }
  visit_split(format, [&]<class Split>() { ecq::pack_raw_bits<Split>(bits, chunk(index), size, packed.data()); });
}

ECQ_INLINE result<void> check_chunk_bits(unsigned bits) {
  if (bits == 0 || (bits >= min_chunk_bits && bits <= max_chunk_bits)) return {};
  return stream_error(errc::invalid_argument, "chunks of 2^", bits, " symbols, not 2^10..2^18");
}

ECQ_INLINE result<chunked_elements> cut_into_chunks(std::span<const std::byte> elements, std::optional<dtype> format,
                                                    const stream_options& options) {
  chunked_elements chunked;
  chunked.bytes = elements;
  chunked.format = format;
  chunked.element_bytes = format ? size_of(*format) : 1;
  if (elements.size() % chunked.element_bytes != 0) {
    return stream_error(errc::invalid_argument, elements.size(), " bytes are not a whole number of elements of ",
                        chunked.element_bytes);
  }
  if (chunked.size() > max_stream_symbols) {
    return stream_error(errc::limit_exceeded, chunked.size(), " symbols, more than 2^43");
  }
  const unsigned fewest = options.trellis ? options.trellis->period_bits : min_chunk_bits;
  const unsigned bits = options.chunk_bits != 0 ? options.chunk_bits
                                                : (std::max)(default_chunk_bits(chunked.size(), options.goal), fewest);
  ECQ_CHECK(check_chunk_bits(bits));
  if (options.narrow_pairs && (format || options.pairs || *options.narrow_pairs > max_narrow_raw_bits)) {
    return stream_error(errc::invalid_argument, "narrow pairs with ", *options.narrow_pairs, " raw bits ",
                        format          ? "for lossless weights"
                        : options.pairs ? "together with pairs"
                                        : "",
                        ": they need codes of one byte, no other pairs, and 0..", max_narrow_raw_bits, " raw bits");
  }
  if (options.few_pairs && (!options.narrow_pairs || options.shared_counts != nullptr)) {
    return stream_error(errc::invalid_argument, "few pairs need narrow pairs and counts of their own");
  }
  if (options.trellis) {
    const auto& [state_bits, period_bits] = *options.trellis;
    if (format || state_bits < trellis::min_state_bits || state_bits > trellis::max_state_bits ||
        period_bits < min_chunk_bits || period_bits > bits) {
      return stream_error(errc::invalid_argument, "trellis of 2^", state_bits, " states and periods of 2^", period_bits,
                          " codes in chunks of 2^", bits,
                          ": it needs codes of one byte, 2^2..2^5 states and periods of 2^10 codes to a chunk");
    }
    chunked.trellis = options.trellis;
  }
  chunked.chunk_bits = bits;
  if (options.class_of_chunk.empty()) {
    chunked.tables = elements.empty() ? 0 : 1;
    return chunked;
  }
  if (options.class_of_chunk.size() != chunked.chunks()) {
    return stream_error(errc::invalid_argument, "classes of ", options.class_of_chunk.size(), " chunks, but there are ",
                        chunked.chunks());
  }
  std::vector<std::uint16_t> classes(options.class_of_chunk.begin(), options.class_of_chunk.end());
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (classes.size() > max_encoder_tables) {
    return stream_error(errc::limit_exceeded, classes.size(), " classes of chunks, more than 256");
  }
  chunked.tables = classes.size();
  chunked.table_of_chunk.reserve(chunked.chunks());
  for (const std::uint16_t wanted : options.class_of_chunk) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), wanted);
    chunked.table_of_chunk.push_back(static_cast<std::uint16_t>(at - classes.begin()));
  }
  return chunked;
}

ECQ_INLINE result<std::vector<std::byte>> indices_of(const cpu& backend, const chunked_elements& codes) {
  std::vector<std::byte> indices(codes.bytes.size());
  ECQ_CHECK(parallel_for(backend, codes.chunks(), [&](std::size_t index) -> result<void> {
    const std::size_t first = index << codes.chunk_bits;
    const std::span chunk(reinterpret_cast<const std::uint8_t*>(codes.chunk(index)), codes.size_of_chunk(index));
    auto* const to = reinterpret_cast<std::uint8_t*>(indices.data() + first);
    const std::size_t done = indices_of_codes(*codes.trellis, chunk, to, backend.isa);
    if (done == chunk.size()) return {};
    return stream_error(errc::invalid_argument, "code ", unsigned{chunk[done]}, " at ", first + done,
                        " does not lie on the trellis");
  }));
  return indices;
}

ECQ_INLINE result<std::vector<histogram>> count_classes(const cpu& backend, const chunked_elements& chunked) {
  std::vector<histogram> classes(chunked.tables);
  std::mutex guard;
  ECQ_CHECK(parallel_for(backend, chunked.chunks(), [&](std::size_t index) -> result<void> {
    histogram part;
    symbol_buffer buffer;
    part.add(chunked.coded(index, buffer), backend.isa);
    const std::scoped_lock lock(guard);
    classes[chunked.table_of(index)] += part;
    return {};
  }));
  return classes;
}

ECQ_INLINE void choose_nibbles(const histogram& counts, chunked_elements& chunked) {
  const unsigned bits = chunked.symbol_bits();
  chunked.pairing.emplace(bits > 4 ? nibble_list::of(counts, bits) : nibble_list{});
}

ECQ_INLINE histogram pair_counts(const symbol_pairing& pairing, const histogram& counts) {
  std::array<std::uint64_t, 16> nibbles{};
  for (std::size_t symbol = 0; symbol < 256; ++symbol) nibbles[pairing.nibbles[symbol]] += counts.counts[symbol];
  nibbles[0] = (std::max)(nibbles[0], std::uint64_t{1});  // the nibble beside an odd last symbol
  const auto total = static_cast<double>(counts.total());
  histogram pairs;
  for (std::size_t pair = 0; pair < 256; ++pair) {
    const double both = static_cast<double>(nibbles[pair % 16]) * static_cast<double>(nibbles[pair / 16]);
    if (both != 0) pairs.counts[pair] = (std::max)(static_cast<std::uint64_t>(both / total), std::uint64_t{1});
  }
  return pairs;
}

}  // namespace ecq::detail
