#pragma once
/// \file
/// The rANS decoder of one chunk by a warp, written once over a warp policy: stream/host_warp.hpp runs it on the host,
/// cuda/device_warp.cuh on a device. Same codes and same verdict as rans::decoder, raw bits joined.

#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/entropy/rans_slots.hpp"
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

template <class Warp, unsigned BucketBits>
ECQ_HOST_DEVICE inline void warp_look_up(const alias_slots<BucketBits>& slots, const typename Warp::lanes& state,
                                         typename Warp::lanes& entry, typename Warp::lanes& code,
                                         typename Warp::lanes& offset) {
  using lanes = typename Warp::lanes;
  const lanes bucket = state & ((1U << BucketBits) - 1U);
  offset = (state & 0xFFFFU) >> BucketBits;
  const auto own = Warp::below(offset, Warp::gather(slots.dividers, bucket));
  Warp::gather(slots.entries, (bucket << 1) + Warp::select(own, lanes(0U), lanes(1U)), entry, code);
}

template <class Warp>
ECQ_HOST_DEVICE inline void warp_look_up(const direct_slots& slots, const typename Warp::lanes& state,
                                         typename Warp::lanes& entry, typename Warp::lanes& code,
                                         typename Warp::lanes& offset) {
  offset = state & ((1U << slots.bits) - 1U);
  Warp::gather(slots.entries, Warp::gather(slots.entry_of_slot, offset), entry, code);
}

/// The 4 * bits raw bits of each lane's four codes of a group, spread to the low bits of four bytes. `raw` is the
/// chunk's, `group` the group's number; 4 * bits <= 28 bits begin at a multiple of 4, so two 32-bit words hold them.
template <class Warp>
ECQ_HOST_DEVICE inline typename Warp::lanes warp_raw_bits(const std::byte* raw, unsigned bits, std::uint32_t group) {
  using lanes = typename Warp::lanes;
  const std::byte* from = raw + std::size_t{group} * (group_symbols / 8) * bits;
  const lanes bit = Warp::lane_numbers() * lanes(rounds_per_group * bits);
  const lanes word = bit >> 5;
  const auto all = Warp::below(lanes(0U), lanes(1U));
  const lanes low = Warp::template load<std::uint32_t>(all, from, word);
  const lanes high = Warp::template load<std::uint32_t>(all, from, word + lanes(1U));
  const lanes four = Warp::funnel_right(low, high, bit & 31U);
  const std::uint32_t mask = (1U << bits) - 1U;
  return (four & mask) | (((four >> bits) & mask) << 8) | (((four >> (2 * bits)) & mask) << 16) |
         (((four >> (3 * bits)) & mask) << 24);
}

template <class Warp, class Slots>
ECQ_HOST_DEVICE errc decode_chunk_by_warp(const Slots& slots, const warp_chunk& chunk, std::uint8_t* out) {
  using lanes = typename Warp::lanes;
  constexpr std::uint32_t lower_bound = 1U << 16;
  const auto all = Warp::below(lanes(0U), lanes(1U));
  lanes state = Warp::template load<std::uint32_t>(all, chunk.states, Warp::lane_numbers());
  if (Warp::ballot(Warp::below(state, lanes(lower_bound))) != 0) return errc::corrupt;
  const std::byte* words = chunk.words;
  std::uint32_t words_left = chunk.word_count;
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    lanes codes(0U);
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
      lanes entry;
      lanes code;
      lanes offset;
      warp_look_up<Warp>(slots, state, entry, code, offset);
      const lanes rank = (offset + (entry >> 16)) & 0xFFFFU;
      const lanes next = (entry & 0xFFFFU) * (state >> slots.scale_bits()) + rank;
      const auto due = Warp::both(active, Warp::below(next, lanes(lower_bound)));
      const std::uint32_t ballot = Warp::ballot(due);
      const std::uint32_t taken = Warp::count(ballot);
      if (taken > words_left) return errc::corrupt;
      const lanes word = Warp::template load<std::uint16_t>(due, words, Warp::set_below(ballot));
      state = Warp::select(active, Warp::select(due, (next << 16) | word, next), state);
      words += std::size_t{2} * taken;
      words_left -= taken;
      codes = codes | (code << (8 * round));
    }
    if (chunk.raw_bits != 0) codes = codes | warp_raw_bits<Warp>(chunk.raw, chunk.raw_bits, group);
    Warp::store(out, codes, left);
    out += group_symbols;
    left -= left < group_symbols ? left : group_symbols;
  }
  const bool ended = Warp::ballot(Warp::below(lanes(lower_bound), state)) == 0;
  return ended && words_left == 0 ? errc::ok : errc::corrupt;
}

template <class Warp>
ECQ_HOST_DEVICE errc fill_chunk_by_warp(std::uint8_t code, const warp_chunk& chunk, std::uint8_t* out) {
  using lanes = typename Warp::lanes;
  constexpr std::uint32_t lower_bound = 1U << 16;
  const auto all = Warp::below(lanes(0U), lanes(1U));
  const lanes state = Warp::template load<std::uint32_t>(all, chunk.states, Warp::lane_numbers());
  const auto low = Warp::ballot(Warp::below(state, lanes(lower_bound)));
  const auto high = Warp::ballot(Warp::below(lanes(lower_bound), state));
  if (low != 0 || high != 0 || chunk.word_count != 0) return errc::corrupt;
  const lanes same(code * 0x01010101U);
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    Warp::store(out, chunk.raw_bits == 0 ? same : same | warp_raw_bits<Warp>(chunk.raw, chunk.raw_bits, group), left);
    out += group_symbols;
    left -= left < group_symbols ? left : group_symbols;
  }
  return errc::ok;
}

}  // namespace detail

/// Decodes one chunk of coder rans; `out` holds chunk.symbols codes and is aligned to 4 bytes on a device.
template <class Warp>
ECQ_HOST_DEVICE errc rans_decode_by_warp(const rans_slots_view& table, const warp_chunk& chunk, std::uint8_t* out) {
  static_assert(lane_count == 32 && rounds_per_group == 4, "a warp has 32 lanes, each storing 4 codes as one word");
  if (table.constant) return detail::fill_chunk_by_warp<Warp>(table.constant_code, chunk, out);
  if (table.bucket_bits == 5) {
    return detail::decode_chunk_by_warp<Warp>(alias_slots<5>{table.entries, table.dividers}, chunk, out);
  }
  if (table.bucket_bits == 6) {
    return detail::decode_chunk_by_warp<Warp>(alias_slots<6>{table.entries, table.dividers}, chunk, out);
  }
  return detail::decode_chunk_by_warp<Warp>(direct_slots{table.entries, table.entry_of_slot, table.scale_bits}, chunk,
                                            out);
}

}  // namespace ecq
