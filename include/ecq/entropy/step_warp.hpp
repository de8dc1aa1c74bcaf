#pragma once
/// \file
/// Steps that decode one symbol per lane from the tables of entropy/warp_table.hpp, and the decoder of a chunk that
/// uses them. They give the same codes and the same verdict as the scalar decoders. The state that a step leaves in an
/// inactive lane is ignored.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/warp_table.hpp"

namespace ecq {

/// Step of rANS with alias mapping, state x -> frequency * (x >> 16) + rank. The bucket of the state, and its place in
/// the bucket, give the frequency and the rank.
template <lockstep_warp Warp>
struct rans_alias_step {
  using lanes = typename Warp::lanes;
  static constexpr unsigned code_byte = 2;

  const std::uint32_t* entries;
  unsigned bits;
  std::uint32_t mask;  ///< the low `bits` bits

  ECQ_HOST_DEVICE lanes operator()(lanes& state, typename Warp::flags) const {
    const lanes bucket = state & mask;
    const lanes slot = state & 0xFFFFU;
    const lanes is_alias = (Warp::gather(entries, bucket) - slot) >> 31;  // both are below 2^16
    const lanes at = (bucket << 1) + is_alias;
    lanes entry[2];
    Warp::gather_two(entries + (std::size_t{1} << bits), at, entry);
    state = (entry[0] & 0xFFFFU) * (state >> 16) + ((slot >> bits) + entry[1]);
    return entry[0];
  }
};

/// Step of rANS with direct mapping and at most 2^12 slots, state x -> frequency * (x >> bits) + rank. The slot of the
/// state gives the frequency and the rank.
template <lockstep_warp Warp>
struct rans_direct_step {
  using lanes = typename Warp::lanes;
  static constexpr unsigned code_byte = 0;

  const std::uint32_t* entries;
  unsigned bits;
  std::uint32_t mask;  ///< the low `bits` bits

  ECQ_HOST_DEVICE lanes operator()(lanes& state, typename Warp::flags) const {
    const lanes entry = Warp::gather(entries, state & mask);
    state = (entry >> 20) * (state >> bits) + ((entry >> 8) & 0xFFFU);
    return entry;
  }
};

/// Step of rANS with direct mapping and more than 2^12 slots.
template <lockstep_warp Warp>
struct rans_wide_step {
  using lanes = typename Warp::lanes;
  static constexpr unsigned code_byte = 0;

  const std::uint32_t* entries;
  unsigned bits;
  std::uint32_t mask;  ///< the low `bits` bits

  ECQ_HOST_DEVICE lanes operator()(lanes& state, typename Warp::flags) const {
    const lanes slot = state & mask;
    const lanes entry = Warp::gather(entries, slot);
    const lanes four = Warp::gather(entries + (std::size_t{1} << bits), slot >> 2);
    state = (entry >> 16) * (state >> bits) + (entry & 0xFFFFU);
    return Warp::shift_right(four, (slot & 3U) << 3);
  }
};

/// Step of tANS: pops the bits that lead from a lane's state to the next.
template <lockstep_warp Warp>
struct tans_step {
  using lanes = typename Warp::lanes;
  static constexpr unsigned code_byte = 1;

  const std::uint32_t* entries;
  lanes state;

  ECQ_HOST_DEVICE lanes operator()(lanes& stack, typename Warp::flags active) {
    const lanes entry = Warp::gather(entries, state);
    state = Warp::select(active, (entry >> 16) + Warp::low_bits(stack, entry), state);
    stack = Warp::shift_right(stack, entry);
    return entry;
  }
};

/// Step of Huffman codes: pops a code word.
template <lockstep_warp Warp>
struct huffman_step {
  using lanes = typename Warp::lanes;
  static constexpr unsigned code_byte = 1;

  const std::uint32_t* entries;
  unsigned bits;
  std::uint32_t mask;  ///< the low `bits` bits
  unsigned bits_behind;

  ECQ_HOST_DEVICE lanes operator()(lanes& stack, typename Warp::flags) const {
    lanes entry = Warp::gather(entries, stack & mask);
    if (bits_behind != 0) {
      const auto longer = Warp::below(entry & 31U, lanes(1U));
      if (Warp::ballot(longer) != 0) {
        const lanes at = ((entry >> 16) << bits_behind) + ((stack >> bits) & ((1U << bits_behind) - 1U));
        const std::uint32_t* const behind = entries + (std::size_t{1} << bits);
        entry = Warp::select(longer, Warp::gather(behind, Warp::select(longer, at, lanes(0U))), entry);
      }
    }
    stack = Warp::shift_right(stack, entry);
    return entry;
  }
};

/// Codings for which decode_chunk_by_warp() has code. This type has all of them; kernels may be compiled for fewer.
struct every_coding {
  template <warp_coding>
  static constexpr bool has = true;
};

/// Decodes one chunk of coder raw, rans, tans or huffman into `sink` (entropy/chunk_warp.hpp). `entries` points to the
/// first entry of `table`. Returns errc::corrupt if the coding of `table` is not among `Codings`.
template <lockstep_warp Warp, class Codings = every_coding, warp_sink<Warp> Sink>
ECQ_DEVICE_INLINE ECQ_HOST_DEVICE inline errc decode_chunk_by_warp(const warp_table& table,
                                                                   const std::uint32_t* entries,
                                                                   const warp_chunk& chunk, Sink&& sink) {
  using lanes = typename Warp::lanes;
  const unsigned bits = table.bits;
  const std::uint32_t mask = Warp::uniform((1U << bits) - 1U);
  if constexpr (Codings::template has<warp_coding::rans_alias>) {
    if (table.coding == warp_coding::rans_alias) {
      rans_alias_step<Warp> step = {entries, bits, mask};
      return decode_chunk_by_warp<Warp>(step, chunk, sink);
    }
  }
  if constexpr (Codings::template has<warp_coding::rans_direct>) {
    if (table.coding == warp_coding::rans_direct) {
      rans_direct_step<Warp> step = {entries, bits, mask};
      return decode_chunk_by_warp<Warp>(step, chunk, sink);
    }
  }
  if constexpr (Codings::template has<warp_coding::rans_wide>) {
    if (table.coding == warp_coding::rans_wide) {
      rans_wide_step<Warp> step = {entries, bits, mask};
      return decode_chunk_by_warp<Warp>(step, chunk, sink);
    }
  }
  if constexpr (Codings::template has<warp_coding::tans>) {
    if (table.coding == warp_coding::tans || table.coding == warp_coding::tans_constant) {
      const std::byte* const states = chunk.states + detail::bit_stack_bytes;
      tans_step<Warp> step = {entries, Warp::template load<std::uint16_t>(Warp::all(), states, Warp::lane_numbers())};
      const bool coded = table.coding == warp_coding::tans;
      if (Warp::ballot(Warp::below(lanes(coded ? (1U << bits) - 1U : 0U), step.state)) != 0) return errc::corrupt;
      if (!coded) return fill_chunk_by_warp<Warp>(table.constant_code, chunk, sink);
      const errc verdict = decode_chunk_by_warp<Warp>(step, chunk, sink);
      return Warp::ballot(Warp::below(lanes(0U), step.state)) == 0 ? verdict : errc::corrupt;
    }
  }
  if constexpr (Codings::template has<warp_coding::huffman>) {
    if (table.coding == warp_coding::huffman) {
      huffman_step<Warp> step = {entries, bits, mask, table.bits_behind};
      return decode_chunk_by_warp<Warp>(step, chunk, sink);
    }
  }
  if constexpr (Codings::template has<warp_coding::constant>) {
    if (table.coding == warp_coding::constant) return fill_chunk_by_warp<Warp>(table.constant_code, chunk, sink);
    if (table.coding == warp_coding::raw) return store_chunk_by_warp<Warp>(0, chunk, sink);
  }
  return errc::corrupt;  // such as a stream of gap arrays: no warp decodes a chunk of it alone
}

}  // namespace ecq
