#pragma once
/// \file
/// Decodes chunks on the host by the code that devices run, for every coder that has such code.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_chunk.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/step_warp.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/pair_io.hpp"
#include "ecq/stream/pair_warp.hpp"
#include "support/host_gap_group.hpp"
#include "support/host_warp.hpp"
#include "support/word_ring.hpp"

namespace ecq_test {

/// Raw bits of a chunk, `bits` per element.
struct raw_part {
  const std::byte* bytes;
  unsigned bits;
};

/// Decodes a chunk by the code of devices, which writes the chunk's elements of `Split` to `out`. Returns its verdict,
/// or nothing if the coder has no such code.
template <class Split, class Coder>
std::optional<ecq::errc> decode_by_warp(Coder, const typename Coder::table& table, ecq::split_map map,
                                        const ecq::chunk_bytes& chunk, raw_part raw, std::byte* out) {
  if constexpr (ecq::has_warp_table<Coder>) {
    std::vector<std::uint32_t> image(3);  // entries may begin anywhere in an image
    const ecq::warp_table described = ecq::append_warp_table(table, map, image);
    return ecq::decode_chunk_by_warp<ecq::host_warp>(
        described, image.data() + described.first,
        ecq::warp_chunk{chunk.states, chunk.words, chunk.word_count, chunk.symbols, word_ring()},
        ecq::warp_element_sink<ecq::host_warp, Split>{raw.bytes, raw.bits, {out, 0, chunk.symbols, true}});
  } else if constexpr (Coder::id == ecq::coder_id::huffman_gaps) {
    std::vector<std::uint32_t> image(3);
    const ecq::warp_table described = ecq::append_gap_table(table, map, image);
    const std::uint32_t* const entries = image.data() + described.first;
    const auto code = ecq::gap_code_of(described, entries, map.bits, map.symbol_bits);
    ecq::host_gap_group group(ecq::gap_code::shared_words(code.shortest != 0 ? code.shortest : ecq::gap_window_bits));
    ecq::gap_chunk opened;
    const ecq::errc verdict =
        ecq::open_gap_chunk<ecq::host_gap_group>(code, {nullptr, chunk.words, chunk.word_count, chunk.symbols}, opened);
    if (verdict != ecq::errc::ok) return verdict;
    return ecq::decode_gap_chunk(group, entries, opened, 0, 1, [&](auto&& give) {
      return give(ecq::warp_element_sink<ecq::host_warp, Split>{raw.bytes, raw.bits, {out, 0, chunk.symbols, true}});
    });
  }
  return std::nullopt;
}

/// Returns chunk `index` of a stream in pairs, without its coded symbols and raw bits.
inline ecq::warp_pairs pairs_of_chunk(const ecq::encoded_stream& stream, std::uint64_t index) {
  const auto escapes = stream.escapes(index);
  return {ecq::warp_nibbles::of(stream.nibbles()), escapes.data(), static_cast<std::uint32_t>(escapes.size()),
          stream.symbols_in(index), stream.header().raw_bits()};
}

/// Like decode_by_warp(), for a chunk in pairs; `target` says which elements are written, and where. Of a chunk with a
/// gap array all elements are written: the group decodes the pairs, and the host splits them.
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
        ecq::warp_chunk{chunk.states, chunk.words, chunk.word_count, chunk.symbols, word_ring()}, sink);
    return verdict == ecq::errc::ok ? sink.verdict() : verdict;
  } else if constexpr (Coder::id == ecq::coder_id::huffman_gaps) {
    std::vector<std::uint8_t> decoded(chunk.symbols);
    const auto verdict = decode_by_warp<ecq::byte_split>(Coder{}, table, ecq::pair_map, chunk, {nullptr, 0},
                                                         reinterpret_cast<std::byte*>(decoded.data()));
    if (verdict != ecq::errc::ok) return verdict;
    return ecq::join_pairs<Split>(list, decoded.data(), raw, {pairs.escapes, pairs.escape_count}, pairs.symbols,
                                  target.out, ecq::instruction_set::scalar, pairs.raw_bits);
  }
  return std::nullopt;
}

}  // namespace ecq_test
