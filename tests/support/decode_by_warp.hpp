#pragma once
/// \file
/// Chunks decoded by the bodies that devices run, on the host, for every coder that has one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/huffman_gaps.hpp"
#include "ecq/entropy/step_warp.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/host_warp.hpp"
#include "ecq/stream/pair_warp.hpp"

namespace ecq_test {

/// The raw bits of a chunk, `bits` an element.
struct raw_part {
  const std::byte* bytes;
  unsigned bits;
};

/// The verdict of the device's body, which writes the chunk's elements of `Split` to `out`; nothing where the coder has
/// no such body.
template <class Split, class Coder>
std::optional<ecq::errc> decode_by_warp(Coder, const typename Coder::table& table, ecq::split_map map,
                                        const ecq::chunk_bytes& chunk, raw_part raw, std::byte* out) {
  if constexpr (ecq::has_warp_table<Coder>) {
    std::vector<std::uint32_t> image(3);  // entries need not begin where an image does
    const ecq::warp_table described = ecq::append_warp_table(table, map, image);
    return ecq::decode_chunk_by_warp<ecq::host_warp>(
        described, image.data() + described.first,
        ecq::warp_chunk{chunk.states, chunk.words, chunk.word_count, chunk.symbols},
        ecq::warp_element_sink<ecq::host_warp, Split>{raw.bytes, raw.bits, {out, 0, chunk.symbols, true}});
  } else if constexpr (Coder::id == ecq::coder_id::huffman_gaps) {
    // A block reads cascaded tables, where the host's decoder reads a wide one.
    std::vector<std::uint8_t> symbols(chunk.symbols);
    const ecq::errc verdict =
        ecq::huffman_gaps::lut_decoder<ecq::huffman_cascade>(table, map).decode(chunk, symbols.data());
    ecq::join_elements<Split>(raw.bits, symbols.data(), raw.bytes, symbols.size(), out);
    return verdict;
  }
  return std::nullopt;
}

/// The symbols of chunk `index` of a stream in pairs.
inline ecq::warp_pairs pairs_of_chunk(const ecq::encoded_stream& stream, std::uint64_t index) {
  const auto escapes = stream.escapes(index);
  return {ecq::warp_nibbles::of(stream.nibbles()), escapes.data(), static_cast<std::uint32_t>(escapes.size()),
          stream.symbols_in(index)};
}

/// As above for a chunk in pairs, of whose elements `target` says which are written where. Those of gap arrays are
/// all written: it is their pairs that a block decodes, and the host splits them.
template <class Split, class Coder>
std::optional<ecq::errc> decode_pairs_by_warp(Coder, const typename Coder::table& table, const ecq::chunk_bytes& chunk,
                                              const ecq::nibble_list& list, const ecq::warp_pairs& pairs,
                                              const std::byte* raw, const ecq::chunk_target& target) {
  if constexpr (ecq::has_warp_table<Coder>) {
    std::vector<std::uint32_t> image(3);
    const ecq::warp_table described = ecq::append_warp_table(table, ecq::pair_map, image);
    ecq::warp_pair_sink<ecq::host_warp, Split> sink(pairs, raw, target);
    const ecq::errc verdict = ecq::decode_chunk_by_warp<ecq::host_warp>(
        described, image.data() + described.first,
        ecq::warp_chunk{chunk.states, chunk.words, chunk.word_count, chunk.symbols}, sink);
    return verdict == ecq::errc::ok ? sink.verdict() : verdict;
  } else if constexpr (Coder::id == ecq::coder_id::huffman_gaps) {
    std::vector<std::uint8_t> decoded(chunk.symbols);
    const ecq::errc verdict =
        ecq::huffman_gaps::lut_decoder<ecq::huffman_cascade>(table, ecq::pair_map).decode(chunk, decoded.data());
    if (verdict != ecq::errc::ok) return verdict;
    return ecq::join_pairs<Split>(list, decoded.data(), raw, {pairs.escapes, pairs.escape_count}, pairs.symbols,
                                  target.out);
  }
  return std::nullopt;
}

}  // namespace ecq_test
