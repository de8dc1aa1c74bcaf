#pragma once
/// \file
/// How a warp (base/threads.hpp) walks through a chunk of any coder: written once over a step, which decodes one symbol
/// per lane, and a sink, which takes the symbols.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"

namespace ecq {

/// The coded part of one chunk as a warp sees it. Pointers are aligned as a stream's sections are (states to 4 bytes,
/// words to 2), and stream_tail_bytes beyond the end of each section are readable.
struct warp_chunk {
  const std::byte* states;
  const std::byte* words;
  std::uint32_t word_count;
  std::uint32_t symbols;
};

/// `step(state, active)` decodes a symbol for each active lane: it advances the states, which are then renormalised,
/// and returns a value whose byte Step::code_byte is the decoded byte.
template <class Step, class Warp>
concept warp_step = requires(Step& step, typename Warp::lanes& state, typename Warp::flags active) {
  { step(state, active) } -> std::same_as<typename Warp::lanes>;
  requires Step::code_byte < 4;
};

/// `sink(codes, group, left)` takes the four decoded bytes of each lane in group number `group`; `left` codes of the
/// group exist.
template <class Sink, class Warp>
concept warp_sink = requires(Sink& sink, const typename Warp::lanes& codes, std::uint32_t group, std::uint32_t left) {
  sink(codes, group, left);
};

/// A warp_sink that asks for memory ahead: `sink.fetch(group)` is called before group `group` is decoded if that is a
/// whole group, even if the group turns out to be damaged.
template <class Sink>
concept fetching_sink = requires(Sink& sink, std::uint32_t group) { sink.fetch(group); };

namespace detail {

/// Words that a warp takes from one chunk.
template <lockstep_warp Warp>
struct warp_words {
  using lanes = typename Warp::lanes;
  /// How many words ahead prefetch() asks: two groups of 6 bits a symbol.
  static constexpr std::uint32_t words_ahead = 96;
  static constexpr std::uint32_t words_asked = 2 * lane_count;

  const std::byte* first;
  std::uint32_t count;
  std::uint32_t taken = 0;
  lanes lower = Warp::lower_lanes();
  const std::byte* ahead = Warp::template own_place<1>(first + std::size_t{2} * words_ahead);
  /// prefetch() asks only for words of this chunk, and only while fewer than this many are taken.
  std::uint32_t far_from_end =
      Warp::uniform(count >= words_ahead + words_asked ? count - words_ahead - words_asked + 1 : 0U);

  /// Prefetches words that later groups take. None of them belongs to another chunk or lies after the last section,
  /// where there may be no memory.
  ECQ_HOST_DEVICE void prefetch() const {
    if (taken < far_from_end) Warp::template prefetch_own<1>(Warp::all(), ahead + std::size_t{2} * taken);
  }

  /// Lanes of `active` whose state is below 2^16 take the next words, in ascending order: up to 32 words, whether they
  /// exist or not.
  ECQ_HOST_DEVICE void renormalize(typename Warp::flags active, lanes& state) {
    const auto due = Warp::both(active, Warp::below(state, lanes(bit_stack_bottom)));
    const std::uint32_t ballot = Warp::ballot(due);
    // All lanes load, due or not: a condition would cost more.
    const lanes word =
        Warp::template load<std::uint16_t>(Warp::all(), first, Warp::count_bits(lanes(ballot) & lower) + lanes(taken));
    state = Warp::select(due, Warp::permute_bytes(word, state, 0x5410), state);  // (state << 16) | word
    taken += Warp::count(ballot);
  }

  ECQ_HOST_DEVICE bool overrun() const { return taken > count; }
};

/// To be called before a sink is called for a whole group.
template <lockstep_warp Warp, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE void fetch_ahead(Sink& sink, std::uint32_t group) {
  if constexpr (fetching_sink<Sink>) sink.fetch(group);
}

}  // namespace detail

/// Decodes a chunk whose lanes have states of at least 2^16, renormalised from words: chunks of rANS and of bit stacks.
/// Returns the verdict of the scalar decoder.
template <lockstep_warp Warp, warp_step<Warp> Step, warp_sink<Warp> Sink>
ECQ_HOST_DEVICE errc decode_chunk_by_warp(Step& step, const warp_chunk& chunk, Sink&& sink) {
  static_assert(lane_count == 32 && rounds_per_group == 4, "a warp has 32 lanes, each with 4 codes of a group");
  using lanes = typename Warp::lanes;
  constexpr unsigned pair = Step::code_byte | ((4 + Step::code_byte) << 4);
  const auto pack = [](const lanes(&found)[4]) {
    return Warp::permute_bytes(Warp::permute_bytes(found[0], found[1], pair),
                               Warp::permute_bytes(found[2], found[3], pair), 0x5410);
  };
  lanes state = Warp::template load<std::uint32_t>(Warp::all(), chunk.states, Warp::lane_numbers());
  if (Warp::ballot(Warp::below(state, lanes(detail::bit_stack_bottom))) != 0) return errc::corrupt;
  detail::warp_words<Warp> words = {chunk.words, chunk.word_count};
  const std::uint32_t whole = Warp::uniform(chunk.symbols / group_symbols);
  const auto next = [&] {
    const lanes found = step(state, Warp::all());
    words.renormalize(Warp::all(), state);
    return found;
  };
  for (std::uint32_t group = 0; group < whole; ++group) {
    words.prefetch();
    detail::fetch_ahead<Warp>(sink, group);
    // Two rounds take at most 64 words, so at most stream_tail_bytes are read beyond the last word.
    const lanes first = next();
    const lanes second = next();
    if (words.overrun()) break;
    const lanes third = next();
    const lanes found[rounds_per_group] = {first, second, third, next()};
    if (words.overrun()) break;
    sink(pack(found), group, group_symbols);
  }
  if (const std::uint32_t left = chunk.symbols % group_symbols; left != 0 && !words.overrun()) {
    lanes found[rounds_per_group];
    for (std::uint32_t round = 0; round < rounds_per_group; ++round) {
      const auto active = Warp::below(Warp::lane_numbers(), lanes(lanes_in_step(left, round)));
      lanes moved = state;
      found[round] = step(moved, active);
      state = Warp::select(active, moved, state);
      words.renormalize(active, state);
      if (words.overrun()) return errc::corrupt;
    }
    sink(pack(found), whole, left);
  }
  const bool ended = Warp::ballot(Warp::below(lanes(detail::bit_stack_bottom), state)) == 0;
  return ended && words.taken == words.count ? errc::ok : errc::corrupt;
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

/// Decodes a chunk of only one symbol, whose decoded byte is `code`: the states never moved and there are no words.
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
