#pragma once
/// \file
/// Decoding of a chunk of any coder by a warp (base/threads.hpp). It is written once, over a step, which decodes one
/// symbol per lane, and a sink, which takes the symbols.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"

namespace ecq {

/// Size in bytes of the ring in fast memory through which the words of a chunk pass.
inline constexpr std::uint32_t word_ring_bytes = 1280;

/// Coded part of one chunk as a warp sees it. Pointers are aligned like a stream's sections: states to 4 bytes, words
/// to 2. Also readable are stream_tail_bytes beyond the end of each section, and every aligned group of 8 bytes that
/// contains a byte of a word.
struct warp_chunk {
  const std::byte* states;
  const std::byte* words;
  std::uint32_t word_count;  ///< at most 2^30
  std::uint32_t symbols;
  std::byte* ring = nullptr;  ///< the warp's own word_ring_bytes, aligned to 8: shared memory on a device
};

/// Step of a decoder: `step(state, active)` decodes a symbol for each active lane. It advances the states, which the
/// caller then renormalises, and returns a value whose byte Step::code_byte is the decoded byte.
template <class Step, class Warp>
concept warp_step = requires(Step& step, typename Warp::lanes& state, typename Warp::flags active) {
  { step(state, active) } -> std::same_as<typename Warp::lanes>;
  requires Step::code_byte < 4;
};

/// Sink of decoded symbols: `sink(codes, group, left)` takes the four decoded bytes of each lane in group number
/// `group`. The group has `left` codes.
template <class Sink, class Warp>
concept warp_sink = requires(Sink& sink, const typename Warp::lanes& codes, std::uint32_t group, std::uint32_t left) {
  sink(codes, group, left);
};

/// A warp_sink that asks for memory ahead: `sink.fetch(group)` is called before the sink takes a group, always if the
/// group is whole, even if it turns out to be damaged.
template <class Sink>
concept fetching_sink = requires(Sink& sink, std::uint32_t group) { sink.fetch(group); };

/// A warp_sink that takes the four values of each lane as the steps returned them. `sink.template take<Byte>(found,
/// group)` is called for whole groups instead; byte `Byte` of each value is the decoded byte.
template <class Sink, class Warp>
concept value_sink = requires(Sink& sink, const typename Warp::lanes (&found)[4], std::uint32_t group) {
  sink.template take<0>(found, group);
};

namespace detail {

/// Packs byte `Byte` of each of four values into one value.
template <lockstep_warp Warp, unsigned Byte>
ECQ_HOST_DEVICE typename Warp::lanes packed(const typename Warp::lanes (&found)[4]) {
  constexpr unsigned pair = Byte | ((4 + Byte) << 4);
  return Warp::permute_bytes(Warp::permute_bytes(found[0], found[1], pair),
                             Warp::permute_bytes(found[2], found[3], pair), 0x5410);
}

/// Words that a warp takes from one chunk. A step waits for its words, and a device's second-level cache takes about
/// eight times as long to answer as fast memory. The warp therefore copies words to a ring in fast memory while it
/// decodes earlier ones. Words beyond the end of the chunk have arbitrary values; all_taken() then tells that too many
/// were taken.
///
/// Positions are in bytes, from the aligned 8 bytes that contain the first word.
template <lockstep_warp Warp>
class warp_words {
 public:
  using lanes = typename Warp::lanes;

  ECQ_HOST_DEVICE explicit warp_words(const warp_chunk& chunk)
      : ring_(chunk.ring),
        at_(Warp::uniform(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(chunk.words) % copied_by_lane))),
        end_(Warp::uniform(at_ + 2 * chunk.word_count)),
        from_(Warp::template own_place<copied_by_lane / 4>(chunk.words - at_)) {
    Warp::wait_for_copies();  // of the previous chunk
    copy(0);
    copy(copied_at_once);
    Warp::wait_for_copies();
    copy(2 * copied_at_once);
    low_at_ = 3 * copied_at_once - enough + 1;
  }

  /// Makes sure that the words of the next group have arrived; to be called before each group. A group takes at most
  /// most_taken bytes, and only the last copied_at_once bytes may still be on their way.
  ECQ_HOST_DEVICE void fetch() {
    if (at_ < low_at_) return;
    const std::uint32_t copied = round_ + low_at_ + enough - 1;
    const std::uint32_t round = at_ & ring_bytes;
    at_ -= round;
    round_ += round;
    low_at_ += copied_at_once - round;
    Warp::wait_for_copies();
    copy(copied);
  }

  /// Renormalises: lanes of `active` whose state is below 2^16 take the next words, in ascending order of lanes,
  /// whether or not the words exist.
  ECQ_HOST_DEVICE void renormalize(typename Warp::flags active, lanes& state) {
    const auto due = Warp::both(active, Warp::below(state, lanes(bit_stack_bottom)));
    const std::uint32_t ballot = Warp::ballot(due);
    // All lanes load, due or not: a condition would cost more.
    const lanes word =
        Warp::template load_at<std::uint16_t>(ring_, Warp::count_bits(lanes(ballot) & lower_) * lanes(2U) + lanes(at_));
    state = Warp::select(due, Warp::append_half(state, word), state);
    at_ += 2 * Warp::count(ballot);
  }

  /// Whether exactly the words of the chunk were taken.
  ECQ_HOST_DEVICE bool all_taken() const { return round_ + at_ == end_; }

 private:
  static constexpr std::uint32_t copied_by_lane = 8;
  static constexpr std::uint32_t copied_at_once = copied_by_lane * lane_count;
  static constexpr std::uint32_t most_taken = 2 * group_symbols;
  static constexpr std::uint32_t enough = most_taken + copied_at_once;
  // A copy replaces bytes that were taken at least one group earlier. The bytes that follow the ring repeat its first
  // ones, so that a group's words are contiguous.
  static constexpr std::uint32_t ring_bytes = enough + most_taken + copied_at_once;
  static_assert((ring_bytes & (ring_bytes - 1)) == 0 && most_taken <= copied_at_once);
  static_assert(ring_bytes + copied_at_once == word_ring_bytes);

  ECQ_HOST_DEVICE void copy(std::uint32_t first) {
    const std::uint32_t to = first & (ring_bytes - 1);
    const auto exist = Warp::below(own_ + lanes(first), lanes(end_));
    Warp::copy_own(exist, ring_ + to, own_, from_ + first);
    if (to == 0) Warp::copy_own(exist, ring_ + ring_bytes, own_, from_ + first);
  }

  std::byte* ring_;
  std::uint32_t at_;         ///< position of the next word in the ring
  std::uint32_t low_at_;     ///< value of `at_` from which on fewer than `enough` bytes are copied beyond it
  std::uint32_t round_ = 0;  ///< position of the ring's first byte
  std::uint32_t end_;
  const std::byte* from_;
  lanes own_ = Warp::lane_numbers() * lanes(copied_by_lane);
  lanes lower_ = Warp::lower_lanes();
};

/// Calls `sink.fetch(group)` if the sink is a fetching_sink; to be called before the sink is called for a whole group.
template <lockstep_warp Warp, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE void fetch_ahead(Sink& sink, std::uint32_t group) {
  if constexpr (fetching_sink<Sink>) sink.fetch(group);
}

}  // namespace detail

/// Decodes a chunk whose lanes have states of at least 2^16 that are renormalised from words: a chunk of rANS or of bit
/// stacks. Returns the same verdict as the scalar decoder.
template <lockstep_warp Warp, warp_step<Warp> Step, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE errc decode_chunk_by_warp(Step& step, const warp_chunk& chunk, Sink&& sink) {
  static_assert(lane_count == 32 && rounds_per_group == 4, "a warp has 32 lanes, each with 4 codes of a group");
  using lanes = typename Warp::lanes;
  lanes state = Warp::template load<std::uint32_t>(Warp::all(), chunk.states, Warp::lane_numbers());
  if (Warp::ballot(Warp::below(state, lanes(detail::bit_stack_bottom))) != 0) return errc::corrupt;
  detail::warp_words<Warp> words(chunk);
  const std::uint32_t whole = Warp::uniform(chunk.symbols / group_symbols);
  const auto next = [&] {
    const lanes found = step(state, Warp::all());
    words.renormalize(Warp::all(), state);
    return found;
  };
  for (std::uint32_t group = 0; group < whole; ++group) {
    words.fetch();
    detail::fetch_ahead<Warp>(sink, group);
    const lanes first = next();
    const lanes second = next();
    const lanes third = next();
    const lanes found[rounds_per_group] = {first, second, third, next()};
    if constexpr (value_sink<Sink, Warp>) {
      sink.template take<Step::code_byte>(found, group);
    } else {
      sink(detail::packed<Warp, Step::code_byte>(found), group, group_symbols);
    }
  }
  if (const std::uint32_t left = chunk.symbols % group_symbols; left != 0) {
    words.fetch();
    lanes found[rounds_per_group];
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
      lanes moved = state;
      found[round] = step(moved, active);
      state = Warp::select(active, moved, state);
      words.renormalize(active, state);
    }
    sink(detail::packed<Warp, Step::code_byte>(found), whole, left);
  }
  const bool ended = Warp::ballot(Warp::below(lanes(detail::bit_stack_bottom), state)) == 0;
  if (ended && words.all_taken()) return errc::ok;
  Warp::wait_for_copies();  // copies may be on their way, to memory that others may use soon
  return errc::corrupt;
}

/// Decodes a chunk without states and words: every byte is `code`, and all other bits are raw.
template <lockstep_warp Warp, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE errc store_chunk_by_warp(std::uint8_t code, const warp_chunk& chunk, Sink&& sink) {
  using lanes = typename Warp::lanes;
  if (chunk.word_count != 0) return errc::corrupt;
  std::uint32_t left = chunk.symbols;
  for (std::uint32_t group = 0; left > 0; ++group) {
    const std::uint32_t here = left < group_symbols ? left : group_symbols;
    detail::fetch_ahead<Warp>(sink, group);
    sink(lanes(code * 0x01010101U), group, here);
    left -= here;
  }
  return errc::ok;
}

/// Decodes a chunk of only one symbol, whose decoded byte is `code`. Returns errc::corrupt unless its states never
/// moved and it has no words.
template <lockstep_warp Warp, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE errc fill_chunk_by_warp(std::uint8_t code, const warp_chunk& chunk, Sink&& sink) {
  using lanes = typename Warp::lanes;
  const lanes bottom(detail::bit_stack_bottom);
  const lanes state = Warp::template load<std::uint32_t>(Warp::all(), chunk.states, Warp::lane_numbers());
  const auto low = Warp::ballot(Warp::below(state, bottom));
  const auto high = Warp::ballot(Warp::below(bottom, state));
  if (low != 0 || high != 0) return errc::corrupt;
  return store_chunk_by_warp<Warp>(code, chunk, sink);
}

}  // namespace ecq
