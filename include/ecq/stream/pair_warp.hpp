#pragma once
/// \file
/// Sinks for entropy/chunk_warp.hpp with which a warp splits pairs of nibbles (docs/format.md, symbol map pairs) and
/// joins their symbols with raw bits. Elements and verdicts are the same as those of join_pairs().

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_warp.hpp"
#include "ecq/stream/element_warp.hpp"

namespace ecq {

/// A nibble_list in registers: four symbols per word, the first in the lowest byte.
struct warp_nibbles {
  std::uint32_t words[4] = {};
  bool escape = false;  ///< whether nibble 15 is the escape

  static warp_nibbles of(const nibble_list& list) noexcept {
    warp_nibbles made{{}, list.has_escape()};
    for (std::size_t i = 0; i < nibble_list::bytes; ++i) {
      made.words[i / 4] |= std::uint32_t{list.symbols[i]} << (8 * (i % 4));
    }
    return made;
  }
};

/// Parts of a chunk in pairs besides its coded symbols and raw bits.
struct warp_pairs {
  warp_nibbles list;
  const std::byte* escapes = nullptr;  ///< escapes of the chunk, `escape_count` of them
  std::uint32_t escape_count = 0;      ///< at most one per symbol
  std::uint32_t symbols = 0;           ///< symbols of the chunk, two in each decoded byte
  unsigned raw_bits = 0;               ///< per code of one byte, 0..7; not used for exponents
};

namespace detail {

inline constexpr std::uint32_t pair_group = 2 * group_symbols;  ///< symbols of a group of pairs
inline constexpr std::uint32_t lane_pair_symbols = 2 * rounds_per_group;

/// Splitter of the pairs of a chunk into symbols of `Split`, group after group. A lane has eight symbols of each group.
/// Raw bits have yet to be added to codes of one byte.
template <lockstep_warp Warp, element_split Split>
class warp_pair_splitter {
 public:
  using lanes = typename Warp::lanes;
  static constexpr bool listed = Split::symbol_bits > 4;  ///< if false, nibbles are symbols

  /// Four symbols per word, lower numbers in lower bytes. If nibbles are symbols, all eight are in the first word.
  struct eight_symbols {
    lanes words[2];
  };

  ECQ_HOST_DEVICE explicit warp_pair_splitter(const warp_pairs& pairs)
      : pairs_(pairs), escape_(Warp::uniform(pairs.list.escape ? 0x88888888U : 0U)) {}

  ECQ_HOST_DEVICE const warp_pairs& pairs() const { return pairs_; }

  /// Returns the nibbles of an incomplete group, with 0 where there is no symbol.
  ECQ_HOST_DEVICE lanes existing(const lanes& pairs, std::uint32_t group) {
    const std::uint32_t first = group * pair_group;
    lanes nibbles = pairs;
    Warp::each_lane([&](std::uint32_t lane) {
      const std::uint32_t own = first + lane * lane_pair_symbols;
      const std::uint32_t there = pairs_.symbols > own ? pairs_.symbols - own : 0;
      if (there >= lane_pair_symbols) return;
      std::uint32_t& value = Warp::at(nibbles, lane);
      // The nibble beside an odd last symbol must be 0.
      if (there % 2 != 0 && (value >> (4 * there) & 15U) != 0) Warp::at(bad_, lane) = 1;
      value &= (1U << (4 * there)) - 1U;
    });
    return nibbles;
  }

  /// Returns the symbols of the next group. All lanes call it together.
  ECQ_HOST_DEVICE eight_symbols operator()(const lanes& nibbles) {
    eight_symbols found;
    if constexpr (!listed) {
      found.words[0] = nibbles;
      found.words[1] = lanes(0U);
    } else {
      // Three bits of a nibble pick a byte from each half of the list; the fourth bit chooses the half.
      const lanes place = nibbles & 0x77777777U;
      const lanes half = Warp::merge_bits(nibbles >> 1, lanes(0x32103210U), 0x44444444U);
      found.words[0] = listed_symbols(place, half);
      found.words[1] = listed_symbols(place >> 16, half >> 16);
      // The fourth bit is set for each nibble that is 15.
      const lanes escaped = (place + lanes(0x11111111U)) & nibbles & lanes(escape_);
      if (Warp::any(Warp::below(lanes(0U), escaped))) resolve(escaped, found);
    }
    return found;
  }

  /// Returns errc::corrupt if any group had invalid pairs or if the number of escapes is wrong. All lanes call it
  /// together, after the last group.
  ECQ_HOST_DEVICE errc verdict() const {
    const bool bad = Warp::any(Warp::below(lanes(0U), bad_));
    return bad || taken_ != pairs_.escape_count ? errc::corrupt : errc::ok;
  }

 private:
  ECQ_HOST_DEVICE lanes listed_symbols(const lanes& place, const lanes& half) const {
    const std::uint32_t(&list)[4] = pairs_.list.words;
    return Warp::permute_bytes_by(Warp::permute_bytes_by(lanes(list[0]), lanes(list[1]), place),
                                  Warp::permute_bytes_by(lanes(list[2]), lanes(list[3]), place), half);
  }

  /// Replaces the symbols of nibbles whose bit 4 * i + 3 is set in `escaped` by escapes.
  ECQ_HOST_DEVICE void resolve(const lanes& escaped, eight_symbols& found) {
    constexpr std::uint32_t largest = (1U << Split::symbol_bits) - 1U;
    const lanes own = ((escaped >> 3) * lanes(0x11111111U)) >> 28;  // 0..8
    lanes next(taken_);
    ECQ_UNROLL
    for (unsigned bit = 0; bit < 4; ++bit) {
      const std::uint32_t ballot = Warp::ballot(Warp::below(lanes(0U), own & (1U << bit)));
      next = next + (Warp::set_below(ballot) << bit);
      taken_ += Warp::count(ballot) << bit;
    }
    Warp::each_lane([&](std::uint32_t lane) {
      std::uint32_t at = Warp::at(next, lane);
      std::uint32_t marks = Warp::at(escaped, lane);
      ECQ_UNROLL
      for (lanes& word : found.words) {
        std::uint32_t& symbols = Warp::at(word, lane);
        // Moves each symbol in turn to the lowest byte. This seldom runs, so registers are left to code that runs
        // often.
        ECQ_NO_UNROLL
        for (unsigned i = 0; i < rounds_per_group; ++i) {
          if ((marks & 8U) != 0) {
            const bool there = at < pairs_.escape_count;
            const std::uint32_t symbol = there ? static_cast<std::uint32_t>(pairs_.escapes[at]) : 0;
            if (!there || symbol > largest) Warp::at(bad_, lane) = 1;
            symbols = (symbols & ~0xFFU) | symbol;
            ++at;
          }
          symbols = (symbols >> 8) | (symbols << 24);
          marks >>= 4;
        }
      }
    });
  }

  warp_pairs pairs_;
  std::uint32_t escape_;     ///< the fourth bit of each nibble if nibble 15 is the escape, else 0
  std::uint32_t taken_ = 0;  ///< number of escapes taken
  lanes bad_ = lanes(0U);    ///< 1 if the lane met an invalid symbol
};

/// Adds raw bits to each lane's eight codes of group `group`, four codes per word. `raw` points to the raw bits of the
/// chunk. A lane has pairs.raw_bits (1..7) bytes of them in a group; up to 11 bytes after them are read. Also
/// prefetches the raw bits of a later group.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE void add_raw_bits(const warp_pairs& pairs, const std::byte* raw, std::uint32_t group,
                                  typename Warp::lanes (&codes)[2]) {
  using lanes = typename Warp::lanes;
  const unsigned bits = pairs.raw_bits;
  const auto there = Warp::below(Warp::lane_numbers() << 3, lanes(pairs.symbols - group * pair_group));
  const lanes first_byte = Warp::lane_numbers() * lanes(bits);
  const std::uint32_t group_bytes = pair_group / 8 * bits;
  const std::byte* const from = raw + std::size_t{group} * group_bytes;
  lanes read[3];
  ECQ_UNROLL
  for (unsigned i = 0; i < 3; ++i) {
    read[i] = Warp::template load<std::uint32_t>(there, from, (first_byte >> 2) + lanes(i));
  }
  if ((group + raw_groups_ahead + 1) * pair_group <= pairs.symbols) {
    Warp::template prefetch<std::uint32_t>(Warp::all(), from + raw_groups_ahead * group_bytes, first_byte >> 2);
  }
  const lanes shift = (first_byte & 3U) << 3;
  const lanes low = Warp::funnel_right(read[0], read[1], shift);
  const lanes high = Warp::funnel_right(read[1], read[2], shift);
  const std::uint32_t mask = (1U << bits) - 1U;
  ECQ_UNROLL
  for (unsigned word = 0; word < 2; ++word) {
    const lanes four = word == 0 ? low : Warp::funnel_right(low, high, lanes(4 * bits));
    lanes spread = four & mask;
    ECQ_UNROLL
    for (unsigned i = 1; i < 4; ++i) spread = spread | ((four << (i * (8 - bits))) & (mask << (8 * i)));
    codes[word] = with_raw_bits<Warp>(codes[word], spread);
  }
}

/// Operations that join each lane's eight symbols with its raw bits, low_bits<Split> each.
template <lockstep_warp Warp, element_split Split>
struct warp_pair_join {
  using lanes = typename Warp::lanes;
  static constexpr unsigned width = element_bits<Split>;
  static constexpr unsigned low = low_bits<Split>;
  static constexpr unsigned raw_words = low == 0 ? 1 : low / 4 + (low % 4 != 0 ? 2 : 0);

  struct eight_elements {
    lanes words[width / 4];
  };
  struct raw_bits {
    lanes words[raw_words];
  };

  /// Returns the `place` that load() takes for the raw bits of a group at `from`.
  ECQ_HOST_DEVICE static const std::byte* place(const std::byte* from) {
    if constexpr (low != 0 && low % 4 == 0) return Warp::template own_place<raw_words>(from);
    return from;
  }

  /// Prefetches the raw bits of all lanes.
  ECQ_HOST_DEVICE static void prefetch(const std::byte* place) {
    if constexpr (low != 0 && low % 4 == 0) {
      Warp::template prefetch_own<raw_words>(place);
    } else if constexpr (low != 0) {
      Warp::template prefetch<std::uint32_t>(Warp::all(), place, Warp::lane_numbers() * lanes(low) >> 2);
    }
  }

  /// Loads the raw bits of the lanes in `which`. A lane has `low` bytes of them; up to 7 bytes after them are read.
  ECQ_HOST_DEVICE static raw_bits load(typename Warp::flags which, const std::byte* place) {
    raw_bits loaded;
    if constexpr (low == 0) {
      loaded.words[0] = lanes(0U);
    } else if constexpr (low % 4 == 0) {
      Warp::load_own(which, place, loaded.words);
    } else {
      const lanes first_byte = Warp::lane_numbers() * lanes(low);
      lanes read[raw_words];
      ECQ_UNROLL
      for (unsigned i = 0; i < raw_words; ++i) {
        read[i] = Warp::template load<std::uint32_t>(which, place, (first_byte >> 2) + lanes(i));
      }
      ECQ_UNROLL
      for (unsigned i = 0; i < raw_words; ++i) {
        const lanes& above = read[i + 1 < raw_words ? i + 1 : i];
        loaded.words[i] = Warp::funnel_right(read[i], above, (first_byte & 3U) << 3);
      }
    }
    return loaded;
  }

  ECQ_HOST_DEVICE static eight_elements join(const lanes (&symbols)[2], const raw_bits& raw) {
    eight_elements made;
    if constexpr (width == 8 && low == 0) {
      made.words[0] = symbols[0];
      made.words[1] = symbols[1];
    } else if constexpr (!warp_pair_splitter<Warp, Split>::listed) {
      // Symbols are the nibbles themselves. Joins sign, symbol and mantissa of four elements at once, first of the even
      // ones, then of the odd ones.
      const lanes& nibbles = symbols[0];
      const lanes& kept = raw.words[0];
      const lanes mantissas = kept >> 1;
      const auto four = [](const lanes& symbol, const lanes& mantissa, const lanes& sign) {
        return Warp::merge_bits(Warp::merge_bits(symbol, mantissa, 0x78787878U), sign, 0x7F7F7F7FU);
      };
      const lanes even = four(nibbles << 3, mantissas, kept << 7);
      const lanes odd = four(nibbles >> 1, mantissas >> 4, kept << 3);
      made.words[0] = Warp::permute_bytes(even, odd, 0x5140);
      made.words[1] = Warp::permute_bytes(even, odd, 0x7362);
    } else if constexpr (width == 16 && low == 8) {
      ECQ_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        join_bytes<Warp>(symbols[i], raw.words[i], made.words[2 * i], made.words[2 * i + 1]);
      }
    } else {
      constexpr unsigned in_word = 32 / width;
      ECQ_UNROLL
      for (unsigned word = 0; word < width / 4; ++word) {
        lanes arranged = element(symbols, raw, word * in_word);
        ECQ_UNROLL
        for (unsigned i = 1; i < in_word; ++i) {
          arranged = arranged | (element(symbols, raw, word * in_word + i) << (i * width));
        }
        made.words[word] = restored<Warp, Split>(arranged);
      }
    }
    return made;
  }

 private:
  /// Returns the arranged element `number` (0..7) of each lane.
  ECQ_HOST_DEVICE static lanes element(const lanes (&symbols)[2], const raw_bits& raw, unsigned number) {
    const unsigned bit = number * low;
    const lanes symbol = Warp::permute_bytes(symbols[number / 4], lanes(0U), 0x4440U + number % 4);
    const lanes& above = raw.words[bit / 32 + 1 < raw_words ? bit / 32 + 1 : bit / 32];
    const lanes bits = Warp::funnel_right(raw.words[bit / 32], above, lanes(bit % 32));
    return (symbol << low) | (bits & ((1U << low) - 1U));
  }
};

}  // namespace detail

/// Sink that writes elements of `Split` from pairs. On a trellis, pairs are those of indices, and the sink writes the
/// codes that these stand for. It serves one chunk, takes all its groups in ascending order, and has a verdict of its
/// own.
template <lockstep_warp Warp, element_split Split>
class warp_pair_sink {
 public:
  using lanes = typename Warp::lanes;
  static constexpr unsigned width = element_bits<Split>;

  /// `raw` points to the chunk's raw bits, low_bits<Split> per element or, for codes of one byte, pairs.raw_bits. It is
  /// aligned to 16 bytes.
  ECQ_HOST_DEVICE warp_pair_sink(const warp_pairs& pairs, const std::byte* raw, const chunk_target& target,
                                 const trellis& walk = {0, 0})
      : split_(pairs),
        raw_(join::place(raw)),
        out_(Warp::template own_place<width / 4>(target.out)),
        first_(target.first),
        last_(target.last < pairs.symbols ? target.last : pairs.symbols),
        wholes_(Warp::uniform(target.aligned && first_ == 0 ? last_ / detail::pair_group : 0U)),
        trellis_(walk) {
    detail::prefetch_first_raw_bits<Warp>(raw, last_, codes_of_bytes ? pairs.raw_bits : low_bits<Split>);
  }

  /// Loads the raw bits of a group that is written whole.
  ECQ_HOST_DEVICE void fetch(std::uint32_t group) {
    if (group >= wholes_) return;
    const std::byte* const from = raw_ + group * raw_bytes;
    ahead_ = join::load(Warp::all(), from);
    if (group + detail::raw_groups_ahead < wholes_) join::prefetch(from + detail::raw_groups_ahead * raw_bytes);
  }

  ECQ_HOST_DEVICE void operator()(const lanes& pairs, std::uint32_t group, std::uint32_t) {
    if (group < wholes_) {
      Warp::store_own(out_ + group * group_bytes, join::join(split(pairs, group).words, ahead_).words);
    } else {
      write_some(split(split_.existing(pairs, group), group).words, group);
    }
  }

  /// Returns errc::corrupt if pairs or escapes were invalid, like warp_pair_splitter::verdict().
  ECQ_HOST_DEVICE errc verdict() const { return split_.verdict(); }

 private:
  using join = detail::warp_pair_join<Warp, Split>;

  static constexpr bool codes_of_bytes = std::is_same_v<Split, byte_split>;
  static constexpr std::size_t raw_bytes = detail::pair_group / 8 * low_bits<Split>;  ///< per group
  static constexpr std::size_t group_bytes = detail::pair_group / 8 * width;

  /// Returns the symbols of a group or, for codes of one byte, the codes.
  ECQ_HOST_DEVICE auto split(const lanes& pairs, std::uint32_t group) {
    auto found = split_(pairs);
    if constexpr (codes_of_bytes) {
      if (split_.pairs().raw_bits != 0) detail::add_raw_bits<Warp>(split_.pairs(), raw_, group, found.words);
      if (trellis_.walks()) trellis_.walk_two(found.words, group);
    }
    return found;
  }

  /// Writes the elements of a group that exist and are wanted, byte by byte.
  ECQ_HOST_DEVICE void write_some(const lanes (&symbols)[2], std::uint32_t group) const {
    const std::uint32_t begin = group * detail::pair_group;
    const std::uint32_t first = first_ > begin ? first_ - begin : 0;
    const std::uint32_t last = last_ > begin ? last_ - begin : 0;
    const auto kept = join::load(Warp::below(Warp::lane_numbers() << 3, lanes(last)), raw_ + group * raw_bytes);
    Warp::store_own_bytes(out_ + group * group_bytes, join::join(symbols, kept).words, first * (width / 8),
                          last * (width / 8));
  }

  detail::warp_pair_splitter<Warp, Split> split_;
  const std::byte* raw_;  ///< from join::place()
  std::byte* out_;        ///< from own_place()
  std::uint32_t first_;   ///< elements first_, ..., last_ - 1 are written
  std::uint32_t last_;
  std::uint32_t wholes_;  ///< leading groups that are written whole
  typename join::raw_bits ahead_{};
  warp_trellis<Warp> trellis_;
};

/// Sink that takes codes of one byte in pairs, adds their raw bits, and passes single codes on to another sink, as if
/// the stream had neither pairs nor raw bits. The other sink walks the trellis, if there is one
/// (quantize/dequantize_warp.hpp). Raw bits are added here because a lane has those of eight neighbours at once.
template <lockstep_warp Warp, warp_sink<Warp> Sink>
class warp_pair_codes {
 public:
  using lanes = typename Warp::lanes;

  /// `raw` points to the chunk's raw bits, pairs.raw_bits per code, and is aligned to 16 bytes.
  ECQ_HOST_DEVICE warp_pair_codes(const warp_pairs& pairs, const std::byte* raw, Sink& sink)
      : split_(pairs), symbols_(pairs.symbols), raw_(raw), sink_(sink) {
    detail::prefetch_first_raw_bits<Warp>(raw, pairs.symbols, pairs.raw_bits);
  }

  ECQ_HOST_DEVICE void operator()(const lanes& pairs, std::uint32_t group, std::uint32_t) {
    const std::uint32_t left = symbols_ - group * detail::pair_group;
    auto found = split_(left < detail::pair_group ? split_.existing(pairs, group) : pairs);
    if (split_.pairs().raw_bits != 0) detail::add_raw_bits<Warp>(split_.pairs(), raw_, group, found.words);
    const lanes from = Warp::lane_numbers() >> 1;
    const auto second = Warp::below(lanes(0U), Warp::lane_numbers() & 1U);
    // Not unrolled, so that the code of the sink is not there twice.
    ECQ_NO_UNROLL
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (half * group_symbols >= left) break;
      const lanes lane = from + lanes(half * (lane_count / 2));
      const lanes codes =
          Warp::select(second, Warp::shuffle(found.words[1], lane), Warp::shuffle(found.words[0], lane));
      const std::uint32_t rest = left - half * group_symbols;
      detail::fetch_ahead<Warp>(sink_, 2 * group + half);
      sink_(codes, 2 * group + half, rest < group_symbols ? rest : group_symbols);
    }
  }

  /// Returns errc::corrupt if pairs or escapes were invalid, like warp_pair_splitter::verdict().
  ECQ_HOST_DEVICE errc verdict() const { return split_.verdict(); }

 private:
  detail::warp_pair_splitter<Warp, byte_split> split_;
  std::uint32_t symbols_;
  const std::byte* raw_;
  Sink& sink_;
};

}  // namespace ecq
