#pragma once
/// \file
/// Decoding of one stretch of a gap array, as in the kernels of DFloat11 (arXiv:2504.11651, algorithm 1) and ECF8
/// (arXiv:2510.02676, algorithm 1), written once over a group of threads (base/threads.hpp). Each thread goes through
/// its windows twice. First it counts their codes, several per look-up. Once all counts are known, so is the place of
/// its codes, and it writes them there, again several at a time.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_array.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_table.hpp"

namespace ecq {

/// Parameters with which a group decodes the chunks of one table of append_gap_table(). The table's first
/// gap_entry::count entries are passed separately, because they have to be in fast memory.
struct gap_code {
  const std::uint32_t* behind;  ///< entries for longer code words
  unsigned longest;             ///< bits of the longest code word; 0 if only one symbol occurs
  unsigned shortest;
  unsigned alphabet;  ///< number of possible symbols, a power of 2
  unsigned raw_bits;  ///< raw bits below a symbol in a decoded byte
  std::uint8_t only;  ///< decoded byte of the only symbol

  /// Largest number of codes of a chunk without stretches that are in shared words at once.
  static constexpr std::uint32_t plain_codes = 16 * group_symbols;

  /// Returns the largest number of codes that start in a window.
  ECQ_HOST_DEVICE std::uint32_t most_codes() const { return (gap_window_bits + shortest - 1) / shortest; }

  /// Returns the number of shared words that a group needs for the codes that it decodes, if the shortest code word has
  /// `shortest` bits.
  static ECQ_HOST_DEVICE constexpr std::uint32_t shared_words(unsigned shortest) {
    const std::uint32_t codes = gap_stretch_windows * ((gap_window_bits + shortest - 1) / shortest);
    return (group_symbols + (codes > plain_codes ? codes : plain_codes)) / 4 + 1;
  }

  /// Returns the entry, as in huffman_cascade, of the code word at the beginning of `bits`. The code word must be
  /// longer than gap_entry::bits bits.
  ECQ_HOST_DEVICE std::uint32_t look_up(std::uint32_t bits) const {
    std::uint32_t table = 0;
    for (;;) {
      const std::uint32_t at = 256 * table + (bits & 0xFFU);
      const std::uint32_t entry = behind[at / 2] >> (16 * (at % 2)) & 0xFFFFU;
      if (huffman_entry::length(entry) != 0) return entry;
      table = huffman_entry::value(entry);
      bits >>= 8;
    }
  }
};

/// Threads that decode a stretch of a gap array. `any` waits for all threads and says whether one of them has a flag
/// that is not 0. `exclusive_sum_and_any` does so too, and replaces each count by the sum of the counts before it.
template <class Group>
concept gap_group =
    stepped_group<Group> && lockstep_warp<typename Group::warp> &&
    requires(Group& group, typename Group::template own<std::uint32_t>& values, std::uint32_t bits, std::uint32_t& sum,
             std::uint32_t* shared, const std::uint32_t* table, const std::byte* from, void (*step)(std::uint32_t)) {
      { group.shared() } -> std::same_as<std::uint32_t*>;
      group.each_warp(step);
      { group.any(values) } -> std::same_as<bool>;
      { group.exclusive_sum_and_any(values, sum, values) } -> std::same_as<bool>;
      Group::set_bits(shared, bits);
      { Group::misalignment(from) } -> std::same_as<std::uint32_t>;
      Group::load_pair(table, bits, sum, sum);
      { Group::funnel_right(bits, bits, bits) } -> std::same_as<std::uint32_t>;
      { Group::funnel_left(bits, bits, bits) } -> std::same_as<std::uint32_t>;
      { Group::count_bits(bits) } -> std::same_as<std::uint32_t>;
      { Group::lowest_bit(bits) } -> std::same_as<std::uint32_t>;
    };

namespace detail {

/// 96 bits of code words, of which the lowest come next.
template <gap_group Group>
struct gap_bits {
  std::uint32_t words[3];

  ECQ_HOST_DEVICE std::uint32_t next() const { return words[0] & (gap_entry::count - 1); }

  /// Takes the number of bits that the 5 lowest bits of `bits` give.
  ECQ_HOST_DEVICE void take(std::uint32_t bits) {
    words[0] = Group::funnel_right(words[0], words[1], bits);
    words[1] = Group::funnel_right(words[1], words[2], bits);
    words[2] = Group::funnel_right(words[2], 0, bits);
  }

  /// Takes up to 32 bits.
  ECQ_HOST_DEVICE void take_word(std::uint32_t length) {
    take(length / 2);
    take(length - length / 2);
  }
};

struct gap_count {
  std::uint32_t codes;  ///< codes that start in the window
  std::uint32_t over;   ///< bits of the last code word that lie after the window
};

/// Counts the codes of a window from its bit `gap` on, where `bits` begin.
template <gap_group Group>
ECQ_HOST_DEVICE gap_count count_codes(const std::uint32_t* entries, const gap_code& code, gap_bits<Group> bits,
                                      std::uint32_t gap) {
  std::uint32_t sum = gap;  // laid out as an info: bits, codes, and bits that are ignored
  for (;;) {
    std::uint32_t even = 0;
    std::uint32_t info = 0;
    do {  // only the work that every look-up needs
      Group::load_pair(entries, bits.next(), even, info);
      sum += info;
      bits.take(info);  // none for gap_entry::beyond
    } while ((sum & gap_window_bits) == 0);
    sum -= info;
    if ((info & gap_window_bits) == 0) {
      const std::uint32_t inner = gap_window_bits - 1 - (sum & 0x7FU);  // bits of the window after the next one
      const std::uint32_t ends = gap_entry::ends(info);
      return {gap_entry::codes(sum) + 1 + Group::count_bits(ends & ((1U << inner) - 1U)),
              Group::lowest_bit(ends >> inner)};
    }
    const unsigned length = huffman_entry::length(code.look_up(bits.words[0]));
    sum += length + (1U << 8);
    if ((sum & gap_window_bits) != 0) return {gap_entry::codes(sum), sum & (gap_window_bits - 1)};
    bits.take_word(length);
  }
}

/// Writes bytes into words that threads share. The thread that puts the last byte of a word writes the word; the bytes
/// that a thread has put into the word after that stay in `pending`.
struct gap_writer {
  std::uint32_t at;  ///< 8 * bytes from the beginning of the words
  std::uint32_t pending;
  std::uint32_t* word;

  /// Puts up to 4 bytes, the first in the lowest bits, with 0 after the last one; they end at `behind`.
  template <gap_group Group>
  ECQ_HOST_DEVICE void put(std::uint32_t bytes, std::uint32_t behind) {
    pending |= Group::funnel_left(0, bytes, at);
    const std::uint32_t rest = Group::funnel_left(bytes, 0, at);
    if (((at ^ behind) & 32U) != 0) {
      *word++ = pending;
      pending = rest;
    }
    at = behind;
  }
};

/// Decodes codes until `writer` is at `end`.
template <gap_group Group>
ECQ_HOST_DEVICE void write_codes(const std::uint32_t* entries, const gap_code& code, gap_bits<Group> bits,
                                 std::uint32_t end, gap_writer& writer) {
  if (writer.at == end) return;
  for (;;) {
    std::uint32_t bytes = 0;
    std::uint32_t info = 0;
    for (;;) {
      Group::load_pair(entries, bits.next(), bytes, info);
      const std::uint32_t behind = writer.at + 8 * gap_entry::codes(info);
      if (behind >= end) break;
      bits.take(info);
      writer.put<Group>(bytes, behind);
    }
    if ((info & gap_window_bits) == 0) {
      writer.put<Group>(bytes & (~0U >> (32 - (end - writer.at))), end);
      return;
    }
    const std::uint32_t entry = code.look_up(bits.words[0]);
    bits.take_word(huffman_entry::length(entry));
    writer.put<Group>(huffman_entry::value(entry), writer.at + 8);
    if (writer.at == end) return;
  }
}

/// Returns the number of bits that the code words of `codes` codes take, or some number above gap_window_bits if they
/// take more than a window.
template <gap_group Group>
ECQ_HOST_DEVICE std::uint32_t bits_of_codes(const std::uint32_t* entries, const gap_code& code, gap_bits<Group>& bits,
                                            std::uint32_t codes) {
  std::uint32_t taken = 0;
  while (codes != 0 && taken <= gap_window_bits) {
    std::uint32_t even = 0;
    std::uint32_t info = 0;
    Group::load_pair(entries, bits.next(), even, info);
    std::uint32_t count = gap_entry::codes(info);
    std::uint32_t length = gap_entry::length(info);
    if ((info & gap_window_bits) != 0) {
      count = 1;
      length = huffman_entry::length(code.look_up(bits.words[0]));
    } else if (count > codes) {
      std::uint32_t ends = gap_entry::ends(info);
      if (codes > 1) ends &= ends - 1;
      if (codes > 2) ends &= ends - 1;
      count = codes;
      length = Group::lowest_bit(ends) + 1;
    }
    codes -= count;
    taken += length;
    bits.take_word(length);
  }
  return taken;
}

template <gap_group Group>
ECQ_HOST_DEVICE std::uint32_t load_half(const std::byte* from, std::uint32_t index) {
  return Group::memory::template load<std::uint16_t>(from, index);
}

template <gap_group Group>
ECQ_HOST_DEVICE std::uint32_t load_gap_word(const std::byte* from, std::uint32_t index) {
  return load_half<Group>(from, 2 * index) | (load_half<Group>(from, 2 * index + 1) << 16);
}

/// Returns the gap of `window` and the gaps after it, at least 17 bits in all.
template <gap_group Group>
ECQ_HOST_DEVICE std::uint32_t load_gaps(const gap_array_view& chunk, std::uint32_t window) {
  const std::uint32_t bit = window * chunk.gap_bits;
  const std::uint32_t low = load_half<Group>(chunk.gaps, bit / 16);
  return (low | (load_half<Group>(chunk.gaps, bit / 16 + 1) << 16)) >> (bit % 16);
}

}  // namespace detail

/// Codes `begin`, ..., `end` - 1 of a chunk, in the words that threads share. Code `begin` is byte begin %
/// group_symbols of these words.
struct gap_codes {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Decodes stretch `stretch` of a chunk into the words that the threads share, and waits for all threads. Every window
/// must end where the gap of the next one says, every stretch where the position of the next one says, and the last
/// window must have only zeros after the chunk's last code word. Otherwise returns errc::corrupt, in all threads.
template <gap_group Group>
ECQ_HOST_DEVICE errc decode_gap_stretch(Group& group, const std::uint32_t* entries, const gap_code& code,
                                        const gap_array_view& chunk, std::uint32_t stretch, gap_codes& decoded) {
  constexpr std::uint32_t each = gap_stretch_windows / Group::size();  // windows per thread
  static_assert(each * Group::size() == gap_stretch_windows && each <= 2, "17 bits have no more than 3 gaps");
  struct thread_state {
    detail::gap_bits<Group> bits[each];
    std::uint32_t codes;  // number of codes in each window, a byte each
    detail::gap_writer writer;
  };
  using of_threads = typename Group::template own<std::uint32_t>;
  typename Group::template own<thread_state> states;
  of_threads counts;
  of_threads wrong;
  const std::uint32_t last = chunk.windows - 1;
  const std::uint32_t begin = detail::load_gap_word<Group>(chunk.positions, stretch);
  const bool has_last = stretch + 1 == chunk.stretches();
  const std::uint32_t end = has_last ? chunk.symbols : detail::load_gap_word<Group>(chunk.positions, stretch + 1);
  // Phase 1: count the code words that start in each window. The count of the last window follows from the number of
  // codes.
  Group::each_thread([&](std::uint32_t thread) {
    thread_state& own = Group::at(states, thread);
    std::uint32_t& count = Group::at(counts, thread);
    std::uint32_t& bad = Group::at(wrong, thread);
    const std::uint32_t first = stretch * gap_stretch_windows + thread * each;
    count = 0;
    bad = 0;
    own.codes = 0;
    if (first > last) return;
    std::uint32_t gaps = detail::load_gaps<Group>(chunk, first);
    const std::uint32_t skew = Group::misalignment(chunk.bits);
    const std::uint32_t gap_mask = (1U << chunk.gap_bits) - 1U;
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < each; ++i) {
      const std::uint32_t window = first + i;
      const std::uint32_t gap = gaps & gap_mask;
      gaps >>= chunk.gap_bits;
      if (window > last) break;
      const std::uint32_t from = 8 * skew + gap_window_bits * window + gap;
      const std::byte* const base = chunk.bits - skew;
      std::uint32_t four[4];
      ECQ_UNROLL
      for (std::uint32_t word = 0; word < 4; ++word)
        four[word] = Group::memory::template load<std::uint32_t>(base, from / 32 + word);
      ECQ_UNROLL
      for (std::uint32_t word = 0; word < 3; ++word) {
        own.bits[i].words[word] = Group::funnel_right(four[word], four[word + 1], from);
      }
      if (window == 0 && gap != 0) bad = 1;
      if (window == last) break;
      const detail::gap_count counted = detail::count_codes(entries, code, own.bits[i], gap);
      own.codes |= counted.codes << (8 * i);
      count += counted.codes;
      if (counted.over != (gaps & gap_mask)) bad = 1;
    }
  });
  std::uint32_t sum = 0;
  const bool miscounted = group.exclusive_sum_and_any(counts, sum, wrong);
  const std::uint32_t rest = end - begin - sum;  // a negative rest becomes large
  if (miscounted || begin > end || end > chunk.symbols || (stretch == 0 && begin != 0) ||
      rest > (has_last ? code.most_codes() : 0)) {
    group.sync();  // the next stretch overwrites counts of this one that others may be reading
    return errc::corrupt;
  }
  // Phase 2: decode again, now to the final place of the codes. Groups of the chunk begin at multiples of their size.
  const std::uint32_t origin = begin % group_symbols;
  const std::uint32_t end_at = 8 * (origin + end - begin);
  Group::each_thread([&](std::uint32_t thread) {
    thread_state& own = Group::at(states, thread);
    std::uint32_t& bad = Group::at(wrong, thread);
    const std::uint32_t first = stretch * gap_stretch_windows + thread * each;
    const std::uint32_t at = 8 * (origin + Group::at(counts, thread));
    own.writer = {at, 0, group.shared() + at / 32};
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < each; ++i) {
      const bool is_last = first + i == last;
      const std::uint32_t codes = is_last ? rest : own.codes >> (8 * i) & 0xFFU;
      detail::write_codes(entries, code, own.bits[i], own.writer.at + 8 * codes, own.writer);
      if (is_last) {
        const std::uint32_t gap = detail::load_gaps<Group>(chunk, last) & ((1U << chunk.gap_bits) - 1U);
        const std::uint32_t bit = gap + detail::bits_of_codes(entries, code, own.bits[i], codes);
        const std::uint64_t left = own.bits[i].words[0] | (std::uint64_t{own.bits[i].words[1]} << 32);
        if (bit == 0 || bit > gap_window_bits || (bit < gap_window_bits && left << bit != 0)) bad = 1;
      }
    }
    if (own.writer.at % 32 != 0 && own.writer.at == end_at) *own.writer.word = 0;
  });
  if (group.any(wrong)) return errc::corrupt;
  Group::each_thread([&](std::uint32_t thread) {
    const detail::gap_writer& writer = Group::at(states, thread).writer;
    if (writer.pending != 0) Group::set_bits(writer.word, writer.pending);
  });
  group.sync();
  decoded = {begin, end};
  return errc::ok;
}

}  // namespace ecq
