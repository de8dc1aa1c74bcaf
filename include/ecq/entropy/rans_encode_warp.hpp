#pragma once
/// \file
/// How a warp encodes a chunk with rANS: written over a warp policy (stream/host_warp.hpp). Same states and words as
/// rans::encoder.

#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/entropy/rans_plan.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// A table of more than one symbol as a warp reads it.
struct warp_encode_table {
  const rans_encode_entry* entries;  ///< by coded symbol, 256 of them
  const std::uint16_t* slots;        ///< alias: slot of each symbol's ranks
  unsigned scale_bits;
};

namespace detail {

/// Where the symbol of an element begins; low_bits counts the sign, which lies above.
template <element_split Split>
inline constexpr unsigned symbol_at = Split::id == symbol_map_id::exponent ? low_bits<Split> - 1 : 0;

}  // namespace detail

/// The coded symbols of a chunk's elements, aligned to 16 bytes.
template <class Warp, element_split Split>
class warp_symbol_source {
 public:
  using lanes = typename Warp::lanes;
  static constexpr unsigned width = element_bits<Split>;

  /// The low `raw_bits` bits of symbols are not coded.
  ECQ_HOST_DEVICE warp_symbol_source(const std::byte* elements, unsigned raw_bits)
      : elements_(elements),
        shift_(detail::symbol_at<Split> + raw_bits),
        mask_(raw_bits < Split::symbol_bits ? (1U << (Split::symbol_bits - raw_bits)) - 1U : 0U) {}

  /// The four elements of each lane in a whole group.
  struct four_elements {
    lanes words[width / 8];
  };

  ECQ_HOST_DEVICE void load(std::uint32_t group, four_elements& four) const {
    Warp::load_words(Warp::all(), elements_ + std::size_t{group} * (group_symbols * width / 8), four.words);
  }
  /// The coded symbol of each lane's element `round`.
  ECQ_HOST_DEVICE lanes of(const four_elements& four, unsigned round) const {
    constexpr unsigned in_word = 32 / width;
    return (four.words[round / in_word] >> (shift_ + round % in_word * width)) & mask_;
  }
  /// The same in a group that may not be whole, of elements that are there.
  ECQ_HOST_DEVICE lanes of(typename Warp::flags there, std::uint32_t group, unsigned round) const {
    const lanes index = (Warp::lane_numbers() << 2) + lanes(group * group_symbols + round);
    return (Warp::template load<typename Split::element>(there, elements_, index) >> shift_) & mask_;
  }

 private:
  const std::byte* elements_;
  unsigned shift_;
  std::uint32_t mask_;
};

namespace detail {

/// States and words of a chunk that is encoded from its end to its beginning.
template <class Warp, slot_mapping Mapping>
struct warp_encode_step {
  using lanes = typename Warp::lanes;

  warp_encode_table table;
  std::byte* words;     ///< room for as many as there are codes
  std::uint32_t first;  ///< number of the first word that is there; they end with the room
  lanes state = lanes(std::uint32_t{1} << 16);

  ECQ_HOST_DEVICE void operator()(const lanes& coded, typename Warp::flags active) {
    lanes entry[4];
    Warp::gather_four(table.entries, coded, entry);
    const lanes& start = entry[2];
    const lanes& frequency = entry[3];
    const unsigned scale = Mapping == slot_mapping::alias ? alias_table::scale_bits : table.scale_bits;
    const lanes upper = state >> 16;
    const auto full =
        Warp::both(active, Warp::at_least(Mapping == slot_mapping::alias ? upper : state >> (32 - scale), frequency));
    const std::uint32_t ballot = Warp::ballot(full);
    first -= Warp::count(ballot);
    Warp::store_halves(full, words, Warp::set_below(ballot) + lanes(first), state);
    const lanes x = Warp::select(full, upper, state);
    const lanes quotient = (Warp::multiply_high(x, entry[0]) + x * entry[1]) >> scale;
    const lanes at = start + x - quotient * frequency;
    if constexpr (Mapping == slot_mapping::alias) {
      // What no symbol has as a rank is looked up nevertheless, by lanes without a symbol.
      state = Warp::select(active, (quotient << 16) + Warp::gather(table.slots, at & 0xFFFFU), state);
    } else {
      state = Warp::select(active, (quotient << scale) + at, state);
    }
  }
};

}  // namespace detail

/// Groups of a tile: chunks are encoded tile by tile, the last one first.
inline constexpr std::uint32_t tile_groups = 8;
/// Elements of a tile.
inline constexpr std::uint32_t tile_symbols = tile_groups * group_symbols;

/// Encodes a chunk of `count` elements; `step` keeps states and words. `begin_tile(tile)` is called before each tile.
template <class Warp, element_split Split, slot_mapping Mapping, class BeginTile>
ECQ_HOST_DEVICE void encode_chunk_by_warp(detail::warp_encode_step<Warp, Mapping>& step,
                                          const warp_symbol_source<Warp, Split>& source, std::uint32_t count,
                                          BeginTile&& begin_tile) {
  using lanes = typename Warp::lanes;
  const std::uint32_t whole = count / group_symbols;
  const std::uint32_t left = count % group_symbols;
  std::uint32_t group = whole;
  for (std::uint32_t tile = (count + tile_symbols - 1) / tile_symbols; tile-- > 0;) {
    begin_tile(tile);
    if (group == whole && left != 0) {
      for (std::uint32_t round = rounds_per_group; round-- > 0;) {
        const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
        step(source.of(active, whole, round), active);
      }
    }
    while (group > tile * tile_groups) {
      typename warp_symbol_source<Warp, Split>::four_elements four;
      source.load(--group, four);
      ECQ_UNROLL
      for (unsigned i = 1; i <= rounds_per_group; ++i) step(source.of(four, rounds_per_group - i), Warp::all());
    }
  }
}

}  // namespace ecq
