#pragma once
/// \file
/// Sinks for entropy/chunk_warp.hpp with which a warp joins decoded bytes and raw bits into elements and stores them.
/// The elements are the same as those of join_elements().

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/repeated_bits.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_warp.hpp"

namespace ecq {

namespace detail {

/// Number of groups by which raw bits are prefetched ahead of their use. A warp that requested them only while it
/// decodes their group would wait for them half of its time (H200, see docs/performance.md).
inline constexpr std::uint32_t raw_groups_ahead = 2;

/// Prefetches the raw bits of the first groups of a chunk that has `elements` elements, `bits` (0..32) raw bits each.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE void prefetch_first_raw_bits(const std::byte* raw, std::uint32_t elements, unsigned bits) {
  using lanes = typename Warp::lanes;
  if (bits == 0) return;
  const std::uint64_t all = std::uint64_t{elements} * bits / 8;
  const lanes own = Warp::lane_numbers() << 4;  // 16 bytes a lane, so that no sector of 32 bytes is left out
  constexpr std::uint32_t most = lane_count << 4;
  const auto bytes = static_cast<std::uint32_t>(all < most ? all : most);
  Warp::template prefetch<std::uint8_t>(Warp::below(own, lanes(bytes)), raw, own);
}

/// Raw bits of the four elements that each lane has in a group, starting at bit 0 of the first word. `raw` points to
/// the raw bits of the chunk, `bits` (1..Width) per element of Width bits.
template <lockstep_warp Warp, unsigned Width>
struct warp_raw_bits {
  using lanes = typename Warp::lanes;
  static constexpr unsigned most_words = Width / 8;

  lanes words[most_words + 1];  ///< the last one is 0

  /// Takes the raw bits from `fetched` words, none of which holds bits of another lane.
  template <std::size_t Words>
  ECQ_HOST_DEVICE explicit warp_raw_bits(const lanes (&fetched)[Words]) {
    ECQ_UNROLL
    for (unsigned i = 0; i <= most_words; ++i) words[i] = i < Words ? fetched[i] : lanes(0U);
  }

  /// Loads the raw bits from memory. The group has `left` elements; nothing is read for lanes without elements. If
  /// `ahead` is not 0, the raw bits of group `group` + ahead are prefetched, and all of them must be readable.
  ECQ_HOST_DEVICE warp_raw_bits(const std::byte* raw, unsigned bits, std::uint32_t group, std::uint32_t left,
                                std::uint32_t ahead) {
    const std::uint32_t group_bytes = group_symbols / 8 * bits;
    const std::byte* const from = raw + std::size_t{group} * group_bytes;
    const auto there = Warp::below(Warp::lane_numbers() << 2, lanes(left));
    const lanes first_bit = Warp::lane_numbers() * lanes(rounds_per_group * bits);
    const lanes first_word = first_bit >> 5;
    // If raw bits are whole bytes per element, a lane's bits begin at a word.
    const unsigned needed = rounds_per_group * bits / 32 + (bits % 8 != 0 ? 2 : 0);
    ECQ_UNROLL
    for (unsigned i = 0; i <= most_words; ++i) {
      words[i] = i < needed ? Warp::template load<std::uint32_t>(there, from, first_word + lanes(i)) : lanes(0U);
    }
    if (ahead != 0) Warp::template prefetch<std::uint32_t>(Warp::all(), from + ahead * group_bytes, first_word);
    ECQ_UNROLL
    for (unsigned i = 0; i < most_words; ++i) words[i] = Warp::funnel_right(words[i], words[i + 1], first_bit & 31U);
    words[most_words] = lanes(0U);
  }

  /// Returns the raw bits of element `number` (0..3) of each lane.
  ECQ_HOST_DEVICE lanes of(unsigned number, unsigned bits) const {
    const unsigned first = number * bits;
    lanes low = words[0];
    lanes high = words[1];
    ECQ_UNROLL
    for (unsigned i = 1; i < most_words; ++i) {  // constant indices keep the words in registers
      const auto reached = Warp::below(lanes(32 * i - 1), lanes(first));
      low = Warp::select(reached, words[i], low);
      high = Warp::select(reached, words[i + 1], high);
    }
    const lanes found = Warp::funnel_right(low, high, lanes(first % 32));
    return bits == 32 ? found : found & ((1U << bits) - 1U);
  }
};

/// Joins symbols and raw bits of 8 bits each into four elements of 16 bits, rotated right by one bit.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE void join_bytes(const typename Warp::lanes& symbols, const typename Warp::lanes& raw,
                                typename Warp::lanes& first_two, typename Warp::lanes& last_two) {
  using lanes = typename Warp::lanes;
  // Neighbouring raw bytes swap their lowest bits, so that one rotation of a word, which holds two elements, puts every
  // bit in its place.
  const lanes swapped = Warp::merge_bits(raw, Warp::permute_bytes(raw, raw, 0x2301), 0xFEFEFEFEU);
  const lanes first = Warp::permute_bytes(swapped, symbols, 0x5140);
  const lanes last = Warp::permute_bytes(swapped, symbols, 0x7362);
  first_two = Warp::funnel_right(first, first, lanes(1U));
  last_two = Warp::funnel_right(last, last, lanes(1U));
}

/// Returns the raw bits of each lane's four codes of one byte in a whole group, each in a byte of its own. `raw` and
/// `bits` (1..8) are as in warp_raw_bits. Reads up to 4 bytes beyond the group. If `ahead` is not 0, the raw bits of
/// group `group` + ahead are prefetched, and all of them must be readable.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE typename Warp::lanes spread_raw_bits(const std::byte* raw, unsigned bits, std::uint32_t group,
                                                     std::uint32_t ahead) {
  using lanes = typename Warp::lanes;
  const std::uint32_t group_bytes = group_symbols / 8 * bits;
  const std::byte* const from = raw + std::size_t{group} * group_bytes;
  const lanes first_bit = Warp::lane_numbers() * lanes(rounds_per_group * bits);
  const lanes word = first_bit >> 5;
  const lanes low = Warp::template load<std::uint32_t>(Warp::all(), from, word);
  const lanes high = Warp::template load<std::uint32_t>(Warp::all(), from, word + lanes(1U));
  if (ahead != 0) Warp::template prefetch<std::uint32_t>(Warp::all(), from + ahead * group_bytes, word);
  const lanes four = Warp::funnel_right(low, high, first_bit & 31U);
  // Moves two codes to each half of the word, then one to each byte. The last step clears all other bits.
  const lanes halves = Warp::merge_bits(four, four << (16 - 2 * bits), 0xFFFFU);
  const lanes bytes = Warp::merge_bits(halves, halves << (8 - bits), 0xFF00FFU);
  return bytes & four_times((1U << bits) - 1U);
}

/// Returns four codes of one byte per lane plus their raw bits, at most 7 bits each, modulo 256. Sums of at most 127 +
/// 127 do not carry into the next byte; the highest bit of each code is added separately.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE typename Warp::lanes with_raw_bits(const typename Warp::lanes& codes, const typename Warp::lanes& raw) {
  return ((codes & 0x7F7F7F7FU) + raw) ^ (codes & 0x80808080U);
}

/// Applies Split::restore to all elements of a word at once.
template <lockstep_warp Warp, element_split Split>
ECQ_HOST_DEVICE typename Warp::lanes restored(const typename Warp::lanes& word) {
  using lanes = typename Warp::lanes;
  constexpr unsigned width = element_bits<Split>;
  if constexpr (Split::id != symbol_map_id::exponent) {
    return word;
  } else if constexpr (width == 32) {
    return Warp::funnel_right(word, word, lanes(1U));
  } else {
    constexpr std::uint32_t top = width == 16 ? twice(0x8000U) : four_times(0x80U);
    return ((word >> 1) & ~top) | ((word << (width - 1)) & top);
  }
}

}  // namespace detail

/// Place where a warp writes the elements of a chunk; with device_warp, in global memory.
struct chunk_target {
  std::byte* out;       ///< place of the chunk's first element, even if that is not written
  std::uint32_t first;  ///< only elements first, first + 1, ..., last - 1 of the chunk are written
  std::uint32_t last;
  bool aligned;  ///< `out` is aligned to what a lane stores at once: all its elements of a group, or 16 bytes
};

/// Returns the target for a chunk that holds elements begin, ..., end - 1 of the stream, of which only elements first,
/// ..., last - 1 are written. `out` is the place of the stream's element `first`; an element has `width` bytes, and a
/// lane stores `together` elements at once.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE chunk_target target_in(std::uint64_t begin, std::uint64_t end, std::uint64_t first, std::uint64_t last,
                                       std::byte* out, std::uint64_t width, std::uint64_t together = rounds_per_group) {
  // The place of the chunk's first element may lie outside the memory that is written, so it is computed as a number.
  const std::uintptr_t to =
      reinterpret_cast<std::uintptr_t>(out) + static_cast<std::uintptr_t>((begin - first) * width);
  return {reinterpret_cast<std::byte*>(to),  // NOLINT(performance-no-int-to-ptr)
          Warp::uniform(first > begin ? static_cast<std::uint32_t>(first - begin) : 0U),
          Warp::uniform(static_cast<std::uint32_t>((last < end ? last : end) - begin)),
          to % (together * width < 16 ? together * width : 16) == 0};
}

/// Sink that writes elements of `Split`. On a trellis, it is given indices and writes the codes that they stand for.
/// Before it is called for a whole group, fetch() must have been called for this group and for no other group since.
template <lockstep_warp Warp, element_split Split>
class warp_element_sink {
 public:
  using lanes = typename Warp::lanes;
  static constexpr unsigned width = element_bits<Split>;

  /// `raw` points to the chunk's raw bits, `raw_bits` per element, and is aligned to 4 bytes. On a trellis, the sink
  /// must be given all groups of the chunk in ascending order.
  ECQ_HOST_DEVICE warp_element_sink(const std::byte* raw, unsigned raw_bits, const chunk_target& target,
                                    const trellis& walk = {0, 0})
      : raw_(raw),
        raw_place_(own_words ? Warp::template own_place<raw_words, raw_word>(raw) : raw),
        raw_bits_(raw_bits),
        target_(target),
        out_(Warp::template own_place<width / 8>(target.out)),
        trellis_(walk) {
    find_wholes();
    if (target.first == 0) detail::prefetch_first_raw_bits<Warp>(raw, target.last, raw_bits);
  }

  /// Restricts the elements that are written from now on to first, first + 1, ..., last - 1 of the chunk, on top of all
  /// earlier limits.
  ECQ_HOST_DEVICE void limit(std::uint32_t first, std::uint32_t last) {
    if (target_.first < first) target_.first = first;
    if (target_.last > last) target_.last = last;
    find_wholes();
  }

  /// Loads the raw bits of a group that is written whole. Does not use them yet, because that would mean waiting for
  /// them.
  ECQ_HOST_DEVICE void fetch(std::uint32_t group) {
    if constexpr (own_words) {
      if (group - first_whole_ >= wholes_) return;
      const std::byte* const from = raw_place_ + group * raw_group_bytes;
      Warp::template load_own<raw_word>(Warp::all(), from, ahead_);
      if (group - first_whole_ + detail::raw_groups_ahead < wholes_) {
        Warp::template prefetch_own<raw_words, raw_word>(from + detail::raw_groups_ahead * raw_group_bytes);
      }
    }
  }

  ECQ_HOST_DEVICE void operator()(const lanes& codes, std::uint32_t group, std::uint32_t left) {
    // If no bits of the symbol are raw, the compiler knows the number of raw bits.
    if (group - first_whole_ < wholes_) {
      Warp::store_own(out_ + group * group_bytes, joined_whole(codes, group).words);
    } else if (raw_bits_ == low_bits<Split>) {
      store(on_trellis(joined<low_bits<Split>>(codes, group, left), group), group, left);
    } else {
      store(on_trellis(joined<any>(codes, group, left), group), group, left);
    }
  }

 private:
  using kept_bits = detail::warp_raw_bits<Warp, width>;
  static constexpr unsigned any = ~0U;

  static constexpr unsigned lane_bits = rounds_per_group * low_bits<Split>;
  static constexpr bool own_words = lane_bits != 0 && lane_bits % 16 == 0;  ///< no two lanes share a word of raw bits
  using raw_word = std::conditional_t<lane_bits % 32 == 0, std::uint32_t, std::uint16_t>;
  static constexpr unsigned raw_words = own_words ? lane_bits / (8 * sizeof(raw_word)) : 1;
  static constexpr std::size_t raw_group_bytes = group_symbols / 8 * low_bits<Split>;

  struct four_elements {
    lanes words[width / 8];
  };

  ECQ_HOST_DEVICE four_elements joined_whole(const lanes& codes, std::uint32_t group) const {
    if constexpr (own_words) {
      return join<low_bits<Split>>(codes, kept_bits(ahead_), low_bits<Split>);
    } else {
      return joined<low_bits<Split>>(codes, group, group_symbols);
    }
  }

  template <unsigned Bits>
  ECQ_HOST_DEVICE four_elements joined(const lanes& codes, std::uint32_t group, std::uint32_t left) const {
    if constexpr (Bits == 0) return {{codes}};
    const unsigned bits = Bits != any ? Bits : raw_bits_;
    constexpr std::uint32_t most_ahead = own_words ? 0 : detail::raw_groups_ahead;  // own words: see fetch()
    const std::uint32_t ahead = (group + most_ahead + 1) * group_symbols <= target_.last ? most_ahead : 0;
    if constexpr (std::is_same_v<Split, byte_split>) {
      if (left == group_symbols) return {{codes | detail::spread_raw_bits<Warp>(raw_, bits, group, ahead)}};
    }
    return join<Bits>(codes, kept_bits(raw_, bits, group, left, ahead), bits);
  }

  /// Joins `codes` with `kept`, the raw bits of each lane's elements, `bits` per element.
  template <unsigned Bits>
  ECQ_HOST_DEVICE static four_elements join(const lanes& codes, const kept_bits& kept, unsigned bits) {
    four_elements made;
    if constexpr (width == 8) {
      constexpr std::uint32_t high = detail::four_times(0xFFU & ~((1U << low_bits<Split>)-1U));
      const lanes four =
          kept.of(0, bits) | (kept.of(1, bits) << 8) | (kept.of(2, bits) << 16) | (kept.of(3, bits) << 24);
      made.words[0] = ((codes << low_bits<Split>)&high) | four;
    } else if constexpr (width == 16 && Bits == 8) {
      detail::join_bytes<Warp>(codes, kept.words[0], made.words[0], made.words[1]);
    } else if constexpr (width == 16) {
      made.words[0] = element(codes, kept, 0, bits) | (element(codes, kept, 1, bits) << 16);
      made.words[1] = element(codes, kept, 2, bits) | (element(codes, kept, 3, bits) << 16);
    } else {
      ECQ_UNROLL
      for (unsigned i = 0; i < 4; ++i) made.words[i] = element(codes, kept, i, bits);
    }
    if constexpr (width != 16 || Bits != 8) {
      ECQ_UNROLL
      for (lanes& word : made.words) word = detail::restored<Warp, Split>(word);
    }
    return made;
  }

  /// Converts joined indices into codes if there is a trellis.
  ECQ_HOST_DEVICE four_elements on_trellis(four_elements made, std::uint32_t group) {
    if constexpr (std::is_same_v<Split, byte_split>) {
      if (trellis_.walks()) made.words[0] = trellis_(made.words[0], group);
    }
    return made;
  }

  /// Returns the arranged element `number` (0..3) of each lane.
  ECQ_HOST_DEVICE static lanes element(const lanes& codes, const kept_bits& kept, unsigned number, unsigned bits) {
    return (Warp::permute_bytes(codes, lanes(0U), 0x4440U + number) << low_bits<Split>) | kept.of(number, bits);
  }

  static constexpr std::size_t group_bytes = group_symbols / 8 * width;

  ECQ_HOST_DEVICE void store(const four_elements& made, std::uint32_t group, std::uint32_t left) const {
    const std::uint32_t begin = group * group_symbols;
    const std::uint32_t first = target_.first > begin ? target_.first - begin : 0;
    const std::uint32_t behind = target_.last > begin ? target_.last - begin : 0;
    const std::uint32_t last = behind < left ? behind : left;
    if (target_.aligned && first == 0 && last == group_symbols) {
      Warp::store_own(out_ + group * group_bytes, made.words);
    } else {
      Warp::store_own_bytes(out_ + group * group_bytes, made.words, first * (width / 8), last * (width / 8));
    }
  }

  ECQ_HOST_DEVICE void find_wholes() {
    const std::uint32_t end = target_.last / group_symbols;
    first_whole_ = Warp::uniform((target_.first + group_symbols - 1) / group_symbols);
    const bool joins = target_.aligned && raw_bits_ == low_bits<Split> && end > first_whole_;
    const bool quick = joins && !(std::is_same_v<Split, byte_split> && trellis_.walks());
    wholes_ = Warp::uniform(quick ? end - first_whole_ : 0U);
  }

  const std::byte* raw_;
  const std::byte* raw_place_;  ///< from own_place()
  unsigned raw_bits_;
  chunk_target target_;
  std::byte* out_;  ///< from own_place()
  /// Groups first_whole_, ..., first_whole_ + wholes_ - 1 are written whole and aligned. No bits of their symbols are
  /// raw, and there is no trellis.
  std::uint32_t first_whole_;
  std::uint32_t wholes_;
  lanes ahead_[raw_words] = {};  ///< raw bits that fetch() has loaded
  warp_trellis<Warp> trellis_;
};

}  // namespace ecq
