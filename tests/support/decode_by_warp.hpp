#pragma once
/// \file
/// Chunks decoded by the bodies that devices run, on the host, for every coder that has one.

#include <cstdint>
#include <optional>

#include "ecq/entropy/bit_stack_warp.hpp"
#include "ecq/entropy/huffman.hpp"
#include "ecq/entropy/huffman_gaps.hpp"
#include "ecq/entropy/rans.hpp"
#include "ecq/entropy/rans_warp.hpp"
#include "ecq/entropy/tans.hpp"
#include "ecq/stream/host_warp.hpp"

namespace ecq_test {

/// Where the codes of a chunk go: with their raw bits, or without them if `raw_bits` is 0.
using host_sink = ecq::warp_code_sink<ecq::host_warp>;

/// The verdict of the device's body, which writes chunk.symbols codes to `sink`; nothing where there is no body for
/// such a chunk.
template <class Coder>
std::optional<ecq::errc> decode_by_warp(Coder, const typename Coder::table&, ecq::split_map, const ecq::warp_chunk&,
                                        const host_sink&) {
  return std::nullopt;
}

inline std::optional<ecq::errc> decode_by_warp(ecq::rans, const ecq::rans_table& table, ecq::split_map map,
                                               const ecq::warp_chunk& chunk, const host_sink& sink) {
  const ecq::rans_slots slots(table, map);
  return ecq::rans_decode_by_warp<ecq::host_warp>(slots.view(), chunk, sink);
}

inline std::optional<ecq::errc> decode_by_warp(ecq::huffman, const ecq::huffman::table& code, ecq::split_map,
                                               const ecq::warp_chunk& chunk, const host_sink& sink) {
  if (code.count < 2) return std::nullopt;
  const ecq::huffman_cascade cascade(code);
  return ecq::huffman_decode_by_warp<ecq::host_warp>({cascade.view(), code.longest > 8}, chunk, sink);
}

inline std::optional<ecq::errc> decode_by_warp(ecq::tans, const ecq::tans_table& table, ecq::split_map map,
                                               const ecq::warp_chunk& chunk, const host_sink& sink) {
  if (table.frequencies.count < 2) return std::nullopt;
  const auto entries = ecq::tans_warp_entries(ecq::tans::decoder(table, map));
  return ecq::tans_decode_by_warp<ecq::host_warp>({entries.data(), table.states()}, chunk, sink);
}

/// A block reads cascaded tables, where the host's decoder reads a wide one.
inline std::optional<ecq::errc> decode_by_warp(ecq::huffman_gaps, const ecq::huffman_gaps::table& code,
                                               ecq::split_map map, const ecq::warp_chunk& chunk,
                                               const host_sink& sink) {
  const ecq::errc verdict = ecq::huffman_gaps::lut_decoder<ecq::huffman_cascade>(code, map).decode(
      {chunk.states, chunk.words, chunk.word_count, chunk.symbols}, sink.out);
  if (verdict == ecq::errc::ok && sink.raw_bits != 0) {
    ecq::merge_raw_bits(map, sink.raw, {sink.out, chunk.symbols}, ecq::instruction_set::scalar);
  }
  return verdict;
}

}  // namespace ecq_test
