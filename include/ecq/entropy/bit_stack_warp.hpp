#pragma once
/// \file
/// The decoders of huffman and tans of one chunk by a warp, written over a warp policy as entropy/rans_warp.hpp is.
/// Same codes and same verdict as huffman::decoder and tans::decoder, raw bits joined.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/config.hpp"
#include "ecq/entropy/huffman_lut.hpp"
#include "ecq/entropy/rans_warp.hpp"
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

/// Decodes a chunk whose lanes are bit stacks. `pop(stack, active, code)` sets the codes that the lanes decode next and
/// returns the bits they take.
template <class Warp, class Pop>
ECQ_HOST_DEVICE errc decode_stacks_by_warp(Pop& pop, const warp_chunk& chunk, std::uint8_t* out) {
  using lanes = typename Warp::lanes;
  constexpr std::uint32_t lower_bound = 1U << 16;
  const auto all = Warp::below(lanes(0U), lanes(1U));
  lanes stack = Warp::template load<std::uint32_t>(all, chunk.states, Warp::lane_numbers());
  if (Warp::ballot(Warp::below(stack, lanes(lower_bound))) != 0) return errc::corrupt;
  const std::byte* words = chunk.words;
  std::uint32_t words_left = chunk.word_count;
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    lanes codes(0U);
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
      lanes code;
      const lanes bits = pop(stack, active, code);
      const lanes rest = Warp::funnel_right(stack, lanes(0U), bits);
      const auto due = Warp::both(active, Warp::below(rest, lanes(lower_bound)));
      const std::uint32_t ballot = Warp::ballot(due);
      const std::uint32_t taken = Warp::count(ballot);
      if (taken > words_left) return errc::corrupt;
      const lanes word = Warp::template load<std::uint16_t>(due, words, Warp::set_below(ballot));
      stack = Warp::select(active, Warp::select(due, (rest << 16) | word, rest), stack);
      words += std::size_t{2} * taken;
      words_left -= taken;
      codes = codes | (code << (8 * round));
    }
    if (chunk.raw_bits != 0) codes = codes | warp_raw_bits<Warp>(chunk.raw, chunk.raw_bits, group);
    Warp::store(out, codes, left);
    out += group_symbols;
    left -= left < group_symbols ? left : group_symbols;
  }
  const bool ended = Warp::ballot(Warp::below(lanes(lower_bound), stack)) == 0;
  return ended && words_left == 0 ? errc::ok : errc::corrupt;
}

template <class Warp>
struct huffman_warp_pop {
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
    return entry >> 10;
  }
};

template <class Warp>
struct tans_warp_pop {
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
    return (entry >> 16) & 0xFFU;
  }
};

}  // namespace detail

/// Decodes one chunk of coder huffman whose code has at least two symbols; `out` as for rans_decode_by_warp.
template <class Warp>
ECQ_HOST_DEVICE errc huffman_decode_by_warp(const huffman_warp_table& table, const warp_chunk& chunk,
                                            std::uint8_t* out) {
  detail::huffman_warp_pop<Warp> pop = {table, chunk.raw_bits};
  return detail::decode_stacks_by_warp<Warp>(pop, chunk, out);
}

/// Decodes one chunk of coder tans whose table has at least two symbols.
template <class Warp>
ECQ_HOST_DEVICE errc tans_decode_by_warp(const tans_warp_table& table, const warp_chunk& chunk, std::uint8_t* out) {
  using lanes = typename Warp::lanes;
  const auto all = Warp::below(lanes(0U), lanes(1U));
  const std::byte* states = chunk.states + detail::bit_stack_bytes;
  detail::tans_warp_pop<Warp> pop = {table, Warp::template load<std::uint16_t>(all, states, Warp::lane_numbers())};
  if (Warp::ballot(Warp::below(lanes(table.states - 1), pop.state)) != 0) return errc::corrupt;
  const errc verdict = detail::decode_stacks_by_warp<Warp>(pop, chunk, out);
  return Warp::ballot(Warp::below(lanes(0U), pop.state)) == 0 ? verdict : errc::corrupt;
}

}  // namespace ecq
