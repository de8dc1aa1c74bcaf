#pragma once
/// \file
/// Decoding by a group of threads of any chunk of gap arrays: divided into stretches, stored, or of only one symbol.
/// The codes and the verdict are those of huffman_gaps::decoder.

#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/repeated_bits.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_group.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/entropy/warp_table.hpp"

namespace ecq {

/// Returns the gap_code of a table of append_gap_table(), for streams whose symbols have `symbol_bits` bits, of which
/// `raw_bits` are raw. `entries` points to the first entry of this table.
ECQ_HOST_DEVICE inline gap_code gap_code_of(const warp_table& table, const std::uint32_t* entries, unsigned raw_bits,
                                            unsigned symbol_bits) {
  return {.behind = entries + 2 * gap_entry::count,
          .longest = table.bits,
          .shortest = table.bits_behind,
          .alphabet = 1U << (symbol_bits - raw_bits),
          .raw_bits = raw_bits,
          .only = table.constant_code};
}

/// A chunk of gap arrays that is being decoded.
struct gap_chunk {
  gap_code code;
  gap_array_view view;  ///< has no windows if the chunk has no stretches
  warp_chunk coded;
  std::uint32_t steps;  ///< number of steps in which it is decoded
  bool stored;
};

/// A sink that, after `sink.limit(first, last)`, writes only codes first, first + 1, ..., last - 1 of the chunk.
template <class Sink, class Warp>
concept limited_sink =
    warp_sink<Sink, Warp> && requires(Sink& sink, std::uint32_t number) { sink.limit(number, number); };

/// Opens a chunk. Its words are aligned to 2 bytes, and stream_tail_bytes beyond their end are readable. Errors:
/// errc::corrupt if the words cannot be those of a chunk.
template <gap_group Group>
ECQ_HOST_DEVICE errc open_gap_chunk(const gap_code& code, const warp_chunk& coded, gap_chunk& opened) {
  const std::uint32_t stored_words = gap_stored_words(coded.symbols);
  opened.code = code;
  opened.view = {};
  opened.coded = coded;
  opened.steps = (coded.symbols + gap_code::plain_codes - 1) / gap_code::plain_codes;
  opened.stored = coded.word_count == stored_words;
  if (opened.stored) return errc::ok;
  if (coded.word_count < 2 || coded.word_count > stored_words) return errc::corrupt;
  const std::uint32_t windows = detail::load_gap_word<Group>(coded.words, 0);
  const unsigned gap_bits = gap_bits_of(code.longest);
  if (gap_array_words(windows, gap_bits) != coded.word_count || (windows == 0) == (code.longest != 0)) {
    return errc::corrupt;
  }
  if (windows == 0) return errc::ok;
  gap_array_view& view = opened.view;
  view = {coded.words + 4, nullptr, nullptr, windows, coded.symbols, gap_bits};
  view.gaps = view.positions + std::size_t{4} * view.stretches();
  view.bits = coded.words + std::size_t{2} * coded.word_count - std::size_t{8} * windows;
  opened.steps = view.stretches();
  const std::uint32_t end = windows * gap_bits;
  const bool padded = end % 16 == 0 || detail::load_half<Group>(view.gaps, end / 16) >> (end % 16) == 0;
  return padded ? errc::ok : errc::corrupt;
}

namespace detail {

/// Loads word `number` of a stored chunk, which has four codes, into `codes`. Returns false if the codes are not
/// symbols, or if anything but 0 follows the last code.
template <gap_group Group>
ECQ_HOST_DEVICE bool load_stored_word(const gap_code& code, const warp_chunk& chunk, std::uint32_t number,
                                      std::uint32_t& codes) {
  const std::uint32_t left = chunk.symbols - 4 * number;
  codes =
      load_half<Group>(chunk.words, 2 * number) | (left > 2 ? load_half<Group>(chunk.words, 2 * number + 1) << 16 : 0U);
  bool good = true;
  for (std::uint32_t i = 0; i < 4 && i < (left + 1) / 2 * 2; ++i) {
    good = good && (codes >> (8 * i) & 0xFFU) < (i < left ? code.alphabet : 1U);
  }
  codes = (codes & four_times(code.alphabet - 1)) << code.raw_bits;
  return good;
}

/// Decodes up to gap_code::plain_codes codes of a chunk without stretches, from code `begin` on, like
/// decode_gap_stretch().
template <gap_group Group>
ECQ_HOST_DEVICE errc load_plain_codes(Group& group, const gap_code& code, const warp_chunk& chunk, bool stored,
                                      std::uint32_t begin, gap_codes& decoded) {
  const std::uint32_t left = chunk.symbols - begin;
  decoded = {begin, left < gap_code::plain_codes ? chunk.symbols : begin + gap_code::plain_codes};
  typename Group::template own<std::uint32_t> wrong;
  group.sync();
  Group::each_thread([&](std::uint32_t thread) {
    std::uint32_t& bad = Group::at(wrong, thread);
    bad = 0;
    for (std::uint32_t word = begin / 4 + thread; 4 * word < decoded.end; word += Group::size()) {
      std::uint32_t codes = code.only * 0x01010101U;
      if (stored && !load_stored_word<Group>(code, chunk, word, codes)) bad = 1;
      group.shared()[word - begin / 4] = codes;
    }
  });
  return group.any(wrong) ? errc::corrupt : errc::ok;
}

/// Passes decoded codes to the sink. Each warp of the group passes its share.
template <gap_group Group, limited_sink<typename Group::warp> Sink>
ECQ_HOST_DEVICE void sink_gap_codes(Group& group, std::uint32_t symbols, const gap_codes& decoded, Sink& sink) {
  using warp = typename Group::warp;
  constexpr std::uint32_t warps = Group::size() / lane_count;
  const std::uint32_t first = decoded.begin / group_symbols;
  const std::uint32_t behind = (decoded.end + group_symbols - 1) / group_symbols;
  const std::uint32_t share = (behind - first + warps - 1) / warps;
  sink.limit(decoded.begin, decoded.end);
  group.each_warp([&](std::uint32_t warp_number) {
    const std::uint32_t begin = first + warp_number * share;
    const std::uint32_t end = begin + share < behind ? begin + share : behind;
    const std::uint32_t* from = group.shared() + (begin - first) * lane_count;
    for (std::uint32_t number = begin; number < end; ++number, from += lane_count) {
      const std::uint32_t left = symbols - number * group_symbols;
      fetch_ahead<warp>(sink, number);
      sink(warp::gather(from, warp::lane_numbers()), number, left < group_symbols ? left : group_symbols);
    }
  });
}

}  // namespace detail

/// Decodes steps `part`, `part` + `parts` and so on of a chunk. Calls `use(give)` after each step without errors:
/// `give(sink)` passes the step's codes to a limited_sink and returns errc::ok; `use` returns the verdict of the
/// calling warp on them. `entries` are the first gap_entry::count entries of the chunk's table. The verdicts of all
/// parts and warps together are the verdict of the chunk.
template <gap_group Group, class Use>
ECQ_HOST_DEVICE errc decode_gap_chunk(Group& group, const std::uint32_t* entries, const gap_chunk& chunk,
                                      std::uint32_t part, std::uint32_t parts, Use&& use) {
  errc verdict = errc::ok;
  for (std::uint32_t step = part; step < chunk.steps; step += parts) {
    gap_codes decoded;
    errc outcome = chunk.view.windows != 0 ? decode_gap_stretch(group, entries, chunk.code, chunk.view, step, decoded)
                                           : detail::load_plain_codes(group, chunk.code, chunk.coded, chunk.stored,
                                                                      step * gap_code::plain_codes, decoded);
    if (outcome == errc::ok) {
      outcome = use([&](auto&& sink) {
        detail::sink_gap_codes(group, chunk.coded.symbols, decoded, sink);
        return errc::ok;
      });
    }
    if (outcome != errc::ok) verdict = outcome;
  }
  return verdict;
}

}  // namespace ecq
