#pragma once
/// \file
/// The rANS decoder of one chunk by a warp (entropy/chunk_warp.hpp). Same codes and same verdict as rans::decoder, raw
/// bits joined.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/config.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/rans_slots.hpp"
#include "ecq/result.hpp"

namespace ecq {

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

/// Step: state x -> frequency * (x >> scale_bits) + rank.
template <class Warp, class Slots>
struct rans_warp_step {
  using lanes = typename Warp::lanes;

  Slots slots;

  ECQ_HOST_DEVICE lanes operator()(const lanes& state, const typename Warp::flags&, lanes& code) const {
    lanes entry;
    lanes offset;
    warp_look_up<Warp>(slots, state, entry, code, offset);
    const lanes rank = (offset + (entry >> 16)) & 0xFFFFU;
    return (entry & 0xFFFFU) * (state >> slots.scale_bits()) + rank;
  }
};

}  // namespace detail

/// Decodes one chunk of coder rans into a sink.
template <class Warp, class Sink>
ECQ_HOST_DEVICE errc rans_decode_by_warp(const rans_slots_view& table, const warp_chunk& chunk, const Sink& sink) {
  const auto decode = [&](const auto& slots) {
    return decode_chunk_by_warp<Warp>(detail::rans_warp_step<Warp, std::decay_t<decltype(slots)>>{slots}, chunk, sink);
  };
  if (table.constant) return fill_chunk_by_warp<Warp>(table.constant_code, chunk, sink);
  if (table.bucket_bits == 5) return decode(alias_slots<5>{table.entries, table.dividers});
  if (table.bucket_bits == 6) return decode(alias_slots<6>{table.entries, table.dividers});
  return decode(direct_slots{table.entries, table.entry_of_slot, table.scale_bits});
}

/// Decodes one chunk of coder rans; `out` holds chunk.symbols codes and is aligned to 4 bytes on a device.
template <class Warp>
ECQ_HOST_DEVICE errc rans_decode_by_warp(const rans_slots_view& table, const warp_chunk& chunk, std::uint8_t* out) {
  return rans_decode_by_warp<Warp>(table, chunk, warp_code_sink<Warp>{chunk.raw, chunk.raw_bits, out});
}

}  // namespace ecq
