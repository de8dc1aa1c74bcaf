#pragma once
/// \file
/// Definition of Huffman codes with gap arrays.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/huffman/code_lengths.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_pass.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/smallest_split.hpp"

namespace ecq {

ECQ_INLINE std::size_t huffman_gaps::encoder::encode(std::span<const std::uint8_t> codes, std::byte*,
                                                     std::span<std::uint16_t> words) const {
  std::uint64_t bits = 0;
  for (const std::uint8_t code : codes) bits += words_[code >> raw_bits_].length;
  const std::uint64_t windows = (bits + gap_window_bits - 1) / gap_window_bits;
  const auto stored = static_cast<std::size_t>(stored_words(static_cast<std::uint32_t>(codes.size())));
  if (words_of(windows, longest_) >= stored) {
    const auto to = words.last(stored);
    std::fill(to.begin(), to.end(), std::uint16_t{0});
    for (std::size_t i = 0; i < codes.size(); ++i) {
      to[i / 2] = static_cast<std::uint16_t>(to[i / 2] | ((codes[i] >> raw_bits_) << (8 * (i % 2))));
    }
    return stored;
  }
  const auto to = words.last(static_cast<std::size_t>(words_of(windows, longest_)));
  std::fill(to.begin(), to.end(), std::uint16_t{0});
  const auto put = [](std::span<std::uint16_t> target, std::uint64_t bit, std::uint64_t value) {
    for (std::size_t at = static_cast<std::size_t>(bit / 16); value != 0; ++at, bit = 0) {
      target[at] = static_cast<std::uint16_t>(target[at] | (value << (bit % 16)));
      value >>= 16 - bit % 16;
    }
  };
  const auto stretches = static_cast<std::size_t>((windows + gap_stretch_windows - 1) / gap_stretch_windows);
  const auto positions = to.subspan(2, 2 * stretches);
  const auto code_words = to.last(static_cast<std::size_t>(windows) * (gap_window_bits / 16));
  const auto gaps = to.subspan(2 + 2 * stretches, to.size() - 2 - 2 * stretches - code_words.size());
  put(to, 0, windows);
  std::uint64_t pending = 0;  // bits of the window that is being filled
  unsigned filled = 0;
  std::size_t window = 0;
  const auto store = [&] {
    for (std::size_t i = 0; i < 4; ++i) code_words[4 * window + i] = static_cast<std::uint16_t>(pending >> (16 * i));
  };
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const code_word& word = words_[std::size_t{codes[i]} >> raw_bits_];
    pending |= std::uint64_t{word.bits} << filled;
    filled += word.length;
    if (filled < gap_window_bits) continue;
    store();
    filled -= gap_window_bits;
    pending = std::uint64_t{word.bits} >> (word.length - filled);
    if (++window == windows) break;  // only after the last code
    put(gaps, window * gap_bits(longest_), filled);
    if (window % gap_stretch_windows == 0) put(positions, window / gap_stretch_windows * 32, i + 1);
  }
  if (window < windows) store();
  return to.size();
}

ECQ_INLINE errc huffman_gaps::chunk_opener::open(const chunk_bytes& chunk, std::uint8_t* out,
                                                 gap_array_view& view) const {
  view = {};
  if (chunk.word_count == stored_words(chunk.symbols)) {
    for (std::uint32_t i = 0; i < chunk.symbols; ++i) {
      const auto symbol = static_cast<std::uint8_t>(chunk.words[i]);
      if (symbol >= map_.alphabet()) return errc::corrupt;
      out[i] = map_.join(symbol, 0);
    }
    return chunk.symbols % 2 == 0 || chunk.words[chunk.symbols] == std::byte{0} ? errc::ok : errc::corrupt;
  }
  if (chunk.word_count < 2 || chunk.word_count > stored_words(chunk.symbols)) return errc::corrupt;
  const auto windows = load_le<std::uint32_t>(chunk.words);
  if (words_of(windows, longest_) != chunk.word_count || (windows == 0) == coded_) return errc::corrupt;
  if (!coded_) {
    std::fill_n(out, chunk.symbols, map_.join(only_, 0));
    return errc::ok;
  }
  view = {chunk.words + 4, nullptr, nullptr, windows, chunk.symbols, gap_bits(longest_)};
  view.gaps = view.positions + std::size_t{4} * view.stretches();
  view.bits = chunk.words + std::size_t{2} * chunk.word_count - std::size_t{8} * windows;
  for (std::size_t bit = std::size_t{windows} * view.gap_bits;
       bit < 8 * static_cast<std::size_t>(view.bits - view.gaps); ++bit) {
    if ((view.gaps[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0}) return errc::corrupt;
  }
  return errc::ok;
}

ECQ_INLINE huffman_gaps::decoder::decoder(const table& code, split_map map)
    : opener_(code, map), raw_bits_(map.bits), single_(code), multi_(code, map.bits) {}

ECQ_INLINE void huffman_gaps::decoder::decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                                   std::span<errc> verdicts, instruction_set) const {
  gap_array_view view{};
  std::size_t chunk = 0;      // the chunk to open next; `view` is that of the one before
  std::uint32_t stretch = 0;  // the next stretch of `view`
  detail::decode_gap_stretches({multi_.entries(), single_.view(), raw_bits_}, [&](detail::gap_stretch_cursor& cursor) {
    for (;;) {
      while (stretch == view.stretches() || verdicts[chunk - 1] != errc::ok) {
        if (chunk == chunks.size()) return false;
        verdicts[chunk] = opener_.open(chunks[chunk], out[chunk], view);
        stretch = 0;
        ++chunk;
      }
      if (cursor.begin(view, stretch++, out[chunk - 1], verdicts[chunk - 1])) return true;
      verdicts[chunk - 1] = errc::corrupt;
    }
  });
}

ECQ_INLINE coding_plan<huffman_gaps::table> huffman_gaps::plan(std::span<const histogram> classes,
                                                               unsigned most_raw_bits) {
  return detail::smallest_split<table>(classes, most_raw_bits, [](const histogram& coded) {
    const auto with_limit = [&](unsigned limit) {
      const code_lengths lengths = limited_code_lengths(coded, limit);
      table code = table::of(coded, lengths);
      const std::uint64_t bits = coded_bits(coded, lengths);
      return std::pair(code, 16 * words_of(bits / gap_window_bits, code.longest));
    };
    const auto narrow = with_limit(16);
    const auto wide = with_limit(table::limit);
    return wide.second < narrow.second ? wide : narrow;
  });
}

}  // namespace ecq
