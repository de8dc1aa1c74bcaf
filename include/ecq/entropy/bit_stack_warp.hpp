#pragma once
/// \file
/// The decoders of huffman and tans of one chunk by a warp (entropy/chunk_warp.hpp). Same codes and same verdict as
/// huffman::decoder and tans::decoder, raw bits joined.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/config.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/huffman_lut.hpp"
#include "ecq/entropy/tans.hpp"
#include "ecq/result.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// Decode table of a Huffman code by pointers, for hosts and devices alike: cascaded tables, two levels at most.
struct huffman_warp_table {
  huffman_cascade_view cascade;
  bool two_levels;  ///< some code word is longer than 8 bits
};

/// Decode table of a tANS code by pointers: an entry for each state holds base (bits 0..15), bits (16..23), decoded
/// byte (24..31), and the mask of that many low bits (32..63).
struct tans_warp_table {
  const std::uint64_t* entries;
  std::uint32_t states;
};

/// The entries that a tans_warp_table points to.
inline std::vector<std::uint64_t> tans_warp_entries(const tans::decoder& decoder) {
  std::vector<std::uint64_t> entries;
  for (const tans_entry& entry : decoder.entries()) {
    entries.push_back(entry.base | (std::uint64_t{entry.bits} << 16) | (std::uint64_t{entry.code} << 24) |
                      (((std::uint64_t{1} << entry.bits) - 1) << 32));
  }
  return entries;
}

namespace detail {

/// Step: pops a code word.
template <class Warp>
struct huffman_warp_step {
  using lanes = typename Warp::lanes;
  using flags = typename Warp::flags;

  huffman_warp_table table;
  unsigned raw_bits;

  ECQ_HOST_DEVICE lanes operator()(const lanes& stack, const flags&, lanes& code) const {
    lanes entry = Warp::gather(table.cascade.entries, stack & 0xFFU);
    if (table.two_levels) {
      const auto pointer = Warp::below(entry >> 10, lanes(1U));
      const lanes second = ((entry & 0x3FFU) << 8) + ((stack >> 8) & 0xFFU);
      entry =
          Warp::select(pointer, Warp::gather(table.cascade.entries, Warp::select(pointer, second, lanes(0U))), entry);
    }
    code = ((entry & 0x3FFU) << raw_bits) & 0xFFU;
    return Warp::funnel_right(stack, lanes(0U), entry >> 10);
  }
};

/// Step: pops the bits that lead from a lane's state to the next.
template <class Warp>
struct tans_warp_step {
  using lanes = typename Warp::lanes;
  using flags = typename Warp::flags;

  tans_warp_table table;
  lanes state;

  ECQ_HOST_DEVICE lanes operator()(const lanes& stack, const flags& active, lanes& code) {
    lanes entry;
    lanes mask;
    Warp::gather(table.entries, state, entry, mask);
    state = Warp::select(active, (entry & 0xFFFFU) + (stack & mask), state);
    code = entry >> 24;
    return Warp::funnel_right(stack, lanes(0U), (entry >> 16) & 0xFFU);
  }
};

}  // namespace detail

/// Decodes one chunk of coder huffman whose code has at least two symbols into a sink.
template <class Warp, class Sink>
ECQ_HOST_DEVICE errc huffman_decode_by_warp(const huffman_warp_table& table, const warp_chunk& chunk,
                                            const Sink& sink) {
  return decode_chunk_by_warp<Warp>(detail::huffman_warp_step<Warp>{table, chunk.raw_bits}, chunk, sink);
}

/// Decodes one chunk of coder tans whose table has at least two symbols into a sink.
template <class Warp, class Sink>
ECQ_HOST_DEVICE errc tans_decode_by_warp(const tans_warp_table& table, const warp_chunk& chunk, const Sink& sink) {
  using lanes = typename Warp::lanes;
  const std::byte* states = chunk.states + detail::bit_stack_bytes;
  detail::tans_warp_step<Warp> step = {table,
                                       Warp::template load<std::uint16_t>(Warp::all(), states, Warp::lane_numbers())};
  if (Warp::ballot(Warp::below(lanes(table.states - 1), step.state)) != 0) return errc::corrupt;
  const errc verdict = decode_chunk_by_warp<Warp>(step, chunk, sink);
  return Warp::ballot(Warp::below(lanes(0U), step.state)) == 0 ? verdict : errc::corrupt;
}

}  // namespace ecq
