#pragma once
/// \file
/// Encoding of a chunk with rANS by a warp (base/threads.hpp), with the same states and words as rans::encoder.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/rans/rans_plan.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// A frequency table of more than one symbol, in the form that a warp reads.
struct warp_encode_table {
  const rans_encode_entry* entries;  ///< by coded symbol, 256 of them
  const std::uint16_t* slots;        ///< alias mapping only: as rans_encode_entry describes
  std::uint32_t addend;              ///< rans_division::addend()
};

namespace detail {

/// Bit of an element at which its symbol begins. low_bits counts the sign too, which lies above the symbol.
template <element_split Split>
inline constexpr unsigned symbol_at = Split::id == symbol_map_id::exponent ? low_bits<Split> - 1 : 0;

}  // namespace detail

/// Number of groups of a tile. A chunk is encoded tile by tile, from the last to the first.
inline constexpr std::uint32_t tile_groups = 8;
/// Number of elements of a tile.
inline constexpr std::uint32_t tile_symbols = tile_groups * group_symbols;

/// The coded symbols of a chunk's elements, which are aligned to 16 bytes. Each symbol is given as the offset of its
/// table entry, in bytes.
template <lockstep_warp Warp, element_split Split>
class warp_symbol_source {
 public:
  using lanes = typename Warp::lanes;
  static constexpr unsigned width = element_bits<Split>;

  /// The low `raw_bits` bits of each symbol are not coded.
  ECQ_HOST_DEVICE warp_symbol_source(const std::byte* elements, unsigned raw_bits)
      : elements_(elements),
        own_(Warp::template own_place<width / 8>(elements)),
        turn_((detail::symbol_at<Split> + raw_bits + 32 - 4) % 32),
        mask_(raw_bits < Split::symbol_bits ? ((1U << (Split::symbol_bits - raw_bits)) - 1U) * entry_bytes : 0U) {}

  /// The four elements of each lane in a whole group.
  struct four_elements {
    lanes words[width / 8];
  };

  /// Asks for the elements of whole tile `tile`, which is encoded later.
  ECQ_HOST_DEVICE void prefetch(std::uint32_t tile) const {
    constexpr std::uint32_t words_of_lane = tile_symbols / lane_count / 4;  // a sector of 32 bytes
    const lanes own = Warp::lane_numbers() * lanes(words_of_lane);
    ECQ_UNROLL
    for (unsigned i = 0; i < width / 8; ++i) {
      const std::uint32_t part = (tile * (width / 8) + i) * tile_symbols;
      Warp::template prefetch<std::uint32_t>(Warp::all(), elements_ + part, own);
    }
  }
  ECQ_HOST_DEVICE void load(std::uint32_t group, four_elements& four) const {
    Warp::load_own(Warp::all(), own_ + std::size_t{group} * (group_symbols * width / 8), four.words);
  }
  /// Finds the entry offsets of the four elements of each lane.
  ECQ_HOST_DEVICE void find(const four_elements& four, lanes (&offsets)[rounds_per_group]) const {
    constexpr unsigned in_word = 32 / width;
    ECQ_UNROLL
    for (unsigned i = 0; i < rounds_per_group; ++i) {
      // Rotates by a number known only at run time, then by a constant.
      const lanes turned = turn(four.words[i / in_word], turn_);
      offsets[i] = turn(turned, i % in_word * width) & mask_;
    }
  }
  /// Finds the entry offset of each lane's element `round` in a group that may be incomplete, for the lanes in `there`.
  ECQ_HOST_DEVICE lanes find(typename Warp::flags there, std::uint32_t group, unsigned round) const {
    const lanes index = (Warp::lane_numbers() << 2) + lanes(group * group_symbols + round);
    return turn(Warp::template load<typename Split::element>(there, elements_, index), turn_) & mask_;
  }

 private:
  static constexpr std::uint32_t entry_bytes = sizeof(rans_encode_entry);
  static_assert(entry_bytes == 16, "four bits of an offset are below the symbol");

  static ECQ_HOST_DEVICE lanes turn(const lanes& word, unsigned right) {
    return Warp::funnel_right(word, word, lanes(right));
  }

  const std::byte* elements_;
  const std::byte* own_;
  unsigned turn_;
  std::uint32_t mask_;
};

/// Encodes a chunk from its end to its beginning; holds its states and its words so far.
template <lockstep_warp Warp>
struct warp_encoder {
  using lanes = typename Warp::lanes;
  using flags = typename Warp::flags;

  warp_encode_table table;
  std::byte* words;     ///< room for one word per code
  std::uint32_t first;  ///< number of the first word so far; words fill the room from its end
  lanes state = lanes(std::uint32_t{1} << 16);
  lanes upper = lanes(1U);  ///< alias mapping: state >> 16, known earlier than the state

  /// Encodes tile `tile` of a chunk of `count` elements.
  template <slot_mapping Mapping, element_split Split>
  ECQ_HOST_DEVICE void encode(const warp_symbol_source<Warp, Split>& source, std::uint32_t tile, std::uint32_t count) {
    const std::uint32_t begin = tile * tile_groups;
    const std::uint32_t here = count - tile * tile_symbols;
    const std::uint32_t whole = here / group_symbols;
    std::uint32_t group = begin + (whole < tile_groups ? whole : tile_groups);
    if (whole < tile_groups && here % group_symbols != 0) {
      for (std::uint32_t round = rounds_per_group; round-- > 0;) {
        const flags active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(here % group_symbols, round)));
        step<Mapping>(source.find(active, group, round), active);
      }
    }
    if (group == begin) return;
    typename warp_symbol_source<Warp, Split>::four_elements next;
    source.load(group - 1, next);
    while (group-- > begin) {
      lanes offsets[rounds_per_group];
      source.find(next, offsets);
      if (group > begin) source.load(group - 1, next);  // loads while this group is encoded
      ECQ_UNROLL
      for (unsigned i = 1; i <= rounds_per_group; ++i) step<Mapping>(offsets[rounds_per_group - i], Warp::all());
    }
  }

 private:
  template <slot_mapping Mapping>
  ECQ_HOST_DEVICE void step(const lanes& offset, flags active) {
    constexpr bool alias = Mapping == slot_mapping::alias;
    lanes entry[4];
    Warp::gather_four(table.entries, offset, entry);
    const lanes& factor = entry[2];
    const lanes& shift = entry[3];
    constexpr unsigned scale = alias ? alias_table::scale_bits : detail::rans_shape::direct_bits;
    const lanes start = entry[3] >> (32 - scale);
    const flags full = Warp::both(active, Warp::at_least(alias ? upper : state, entry[1]));
    const std::uint32_t ballot = Warp::ballot(full);
    first -= Warp::count(ballot);
    Warp::store_halves(full, words, Warp::set_below(ballot) + lanes(first), state);
    // Inactive lanes get a state that every entry accepts.
    const lanes x = Warp::select(active, Warp::select(full, alias ? upper : state >> 16, state), lanes(0U));
    const lanes quotient = Warp::shift_right(Warp::multiply_high(x, entry[0], table.addend), shift);
    if constexpr (alias) {
      const lanes next = Warp::append_half(quotient, Warp::gather(table.slots, quotient * factor + (start - x)));
      state = Warp::select(active, next, state);
      upper = Warp::select(active, quotient, upper);
    } else {
      state = Warp::select(active, (start + x) + quotient * factor, state);
    }
  }
};

}  // namespace ecq
