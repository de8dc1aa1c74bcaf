#pragma once
/// \file
/// How a warp walks through a chunk, whatever its coder: written once over a warp policy (stream/host_warp.hpp on the
/// host, cuda/device_warp.cuh on a device), a step that decodes a symbol a lane, and a sink that takes them.

#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/entropy/bit_stack.hpp"
#include "ecq/result.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// One chunk as a warp sees it: `raw` are its raw bits, `raw_bits` (0..7) a code. All pointers are aligned as a
/// stream's sections make them (states to 4 bytes, words to 2, raw bits to 16) and readable stream_tail_bytes beyond.
struct warp_chunk {
  const std::byte* states;
  const std::byte* words;
  const std::byte* raw;
  std::uint32_t word_count;
  std::uint32_t symbols;
  unsigned raw_bits;
};

namespace detail {

/// The 4 * bits raw bits of each lane's four codes of a group, spread to the low bits of four bytes. `raw` is the
/// chunk's, `group` the group's number; 4 * bits <= 28 bits begin at a multiple of 4, so two 32-bit words hold them.
template <class Warp>
ECQ_HOST_DEVICE inline typename Warp::lanes warp_raw_bits(const std::byte* raw, unsigned bits, std::uint32_t group) {
  using lanes = typename Warp::lanes;
  const std::byte* from = raw + std::size_t{group} * (group_symbols / 8) * bits;
  const lanes bit = Warp::lane_numbers() * lanes(rounds_per_group * bits);
  const lanes word = bit >> 5;
  const lanes low = Warp::template load<std::uint32_t>(Warp::all(), from, word);
  const lanes high = Warp::template load<std::uint32_t>(Warp::all(), from, word + lanes(1U));
  const lanes four = Warp::funnel_right(low, high, bit & 31U);
  const std::uint32_t mask = (1U << bits) - 1U;
  return (four & mask) | (((four >> bits) & mask) << 8) | (((four >> (2 * bits)) & mask) << 16) |
         (((four >> (3 * bits)) & mask) << 24);
}

}  // namespace detail

/// Sink: joins raw bits to the decoded bytes and stores them from `out` on, which is aligned to 4 bytes on a device.
template <class Warp>
struct warp_code_sink {
  const std::byte* raw;
  unsigned raw_bits;
  std::uint8_t* out;

  /// Takes the four decoded bytes of each lane of group number `group`, of which `left` codes exist from here on.
  ECQ_HOST_DEVICE void operator()(typename Warp::lanes codes, std::uint32_t group, std::uint32_t left) const {
    if (raw_bits != 0) codes = codes | detail::warp_raw_bits<Warp>(raw, raw_bits, group);
    Warp::store(out + std::size_t{group} * group_symbols, codes, left);
  }
};

/// Decodes a chunk whose lanes have states of at least 2^16 that words renormalise: rANS, and bit stacks.
/// `step(state, active, code)` decodes a byte for each active lane and returns the states that are left, before words
/// are taken. The verdict is that of the scalar decoder.
template <class Warp, class Step, class Sink>
ECQ_HOST_DEVICE errc decode_chunk_by_warp(Step&& step, const warp_chunk& chunk, const Sink& sink) {
  static_assert(lane_count == 32 && rounds_per_group == 4, "a warp has 32 lanes, each storing 4 codes as one word");
  using lanes = typename Warp::lanes;
  const lanes bottom(detail::bit_stack_bottom);
  lanes state = Warp::template load<std::uint32_t>(Warp::all(), chunk.states, Warp::lane_numbers());
  if (Warp::ballot(Warp::below(state, bottom)) != 0) return errc::corrupt;
  const std::byte* words = chunk.words;
  std::uint32_t words_left = chunk.word_count;
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    lanes codes(0U);
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
      lanes code;
      const lanes next = step(state, active, code);
      const auto due = Warp::both(active, Warp::below(next, bottom));
      const std::uint32_t ballot = Warp::ballot(due);
      const std::uint32_t taken = Warp::count(ballot);
      if (taken > words_left) return errc::corrupt;
      const lanes word = Warp::template load<std::uint16_t>(due, words, Warp::set_below(ballot));
      state = Warp::select(active, Warp::select(due, (next << 16) | word, next), state);
      words += std::size_t{2} * taken;
      words_left -= taken;
      codes = codes | (code << (8 * round));
    }
    sink(codes, group, left);
    left -= left < group_symbols ? left : group_symbols;
  }
  const bool ended = Warp::ballot(Warp::below(bottom, state)) == 0;
  return ended && words_left == 0 ? errc::ok : errc::corrupt;
}

/// As above for a chunk of one symbol alone, which decodes to `code`: states never moved and there are no words.
template <class Warp, class Sink>
ECQ_HOST_DEVICE errc fill_chunk_by_warp(std::uint8_t code, const warp_chunk& chunk, const Sink& sink) {
  using lanes = typename Warp::lanes;
  const lanes bottom(detail::bit_stack_bottom);
  const lanes state = Warp::template load<std::uint32_t>(Warp::all(), chunk.states, Warp::lane_numbers());
  const auto low = Warp::ballot(Warp::below(state, bottom));
  const auto high = Warp::ballot(Warp::below(bottom, state));
  if (low != 0 || high != 0 || chunk.word_count != 0) return errc::corrupt;
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    sink(lanes(code * 0x01010101U), group, left);
    left -= left < group_symbols ? left : group_symbols;
  }
  return errc::ok;
}

}  // namespace ecq
