#pragma once
/// \file
/// Definition of tANS in 32 lanes: the scalar code, which defines the format, and the choice of kernels.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/bit_stack/bit_stack_decode.hpp"
#include "ecq/entropy/bit_stack/bit_stack_encode.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/smallest_split.hpp"
#include "ecq/entropy/tans/tans.hpp"

namespace ecq {

ECQ_INLINE tans::encoder::encoder(const table& frequencies, split_map map)
    : raw_bits_(map.bits), states_(frequencies.states()), constant_(frequencies.frequencies.count == 1) {
  if (constant_) return;
  state_of_.resize(states_ + 1);  // kernels read four bytes per state
  const frequency_table& used = frequencies.frequencies;
  std::array<std::uint32_t, 256> start{};
  for (std::uint32_t i = 0, sum = 0; i < used.count; sum += used.frequencies[i++]) {
    const std::uint32_t f = used.frequencies[i];
    const std::uint32_t most = frequencies.bits() + 1 - static_cast<std::uint32_t>(std::bit_width(f));
    start[i] = sum;
    entries_[used.symbols[i]] = {f << most, most, sum - f};
  }
  for_each_state(frequencies, [&](std::uint32_t state, std::uint8_t i, std::uint32_t x) {
    state_of_[start[i] + x - used.frequencies[i]] = static_cast<std::uint16_t>(states_ + state);
  });
}

ECQ_INLINE std::size_t tans::encoder::encode(std::span<const std::uint8_t> codes, std::byte* states,
                                             std::span<std::uint16_t> words) const {
  std::size_t count = 0;
  encode_many({&codes, 1}, &states, {&words, 1}, {&count, 1}, instruction_set::scalar);
  return count;
}

ECQ_INLINE void tans::encoder::encode_many(std::span<const std::span<const std::uint8_t>> codes,
                                           std::byte* const* states, std::span<const std::span<std::uint16_t>> words,
                                           std::span<std::size_t> counts, instruction_set isa) const {
  using cursor = detail::bit_stack_encode_cursor;
  const instruction_set chosen = constant_ ? instruction_set::scalar : chosen_instruction_set(isa);
  detail::tans_encoding kernel_table;
  if (chosen != instruction_set::scalar) kernel_table = encoding();
  detail::encode_side_by_side<cursor>(
      codes.size(), [&](cursor& chunk, std::size_t i) { chunk.begin(codes[i], words[i], states_); },
      [&](cursor& chunk, std::size_t down_to) {
        if (!constant_) chunk.encode(down_to, [&](auto& x, std::uint8_t code) { return push(x, code); });
      },
      [&](std::span<cursor> chunks) { detail::bit_stack_encode(kernel_table, chosen, chunks); },
      [&](const cursor& chunk, std::size_t i) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) {
          store_le(states[i] + 4 * lane, chunk.stack[lane]);
          store_le(states[i] + detail::bit_stack_bytes + 2 * lane,
                   static_cast<std::uint16_t>(chunk.state[lane] - states_));
        }
        counts[i] = static_cast<std::size_t>(words[i].data() + words[i].size() - chunk.word);
      });
}

inline detail::pushed tans::encoder::push(std::uint32_t& x, std::uint8_t code) const {
  const entry& symbol = entries_[std::size_t{code} >> raw_bits_];
  const std::uint32_t bits = symbol.most - (x < symbol.limit ? 1 : 0);
  const std::uint32_t value = x & ((1U << bits) - 1U);
  x = state_of_[symbol.start + (x >> bits)];
  return {value, bits};
}

ECQ_INLINE detail::tans_encoding tans::encoder::encoding() const {
  detail::tans_encoding table;
  table.states = state_of_.data();
  for (std::size_t code = 0; code < 256; ++code) {
    const entry& symbol = entries_[code >> raw_bits_];
    table.entries[code] = (symbol.start & 0xFFFFU) | (symbol.most | symbol.limit << 3) << 16;
  }
  table.number();
  return table;
}

ECQ_INLINE tans::decoder::decoder(const table& frequencies, split_map map)
    : only_(map.join(frequencies.frequencies.symbols[0], 0)) {
  const frequency_table& used = frequencies.frequencies;
  if (used.count == 1) return;
  entries_.resize(frequencies.states());
  for_each_state(frequencies, [&](std::uint32_t state, std::uint8_t i, std::uint32_t x) {
    const unsigned bits = frequencies.bits() + 1 - static_cast<unsigned>(std::bit_width(x));
    entries_[state] = {static_cast<std::uint16_t>((x << bits) - frequencies.states()), static_cast<std::uint8_t>(bits),
                       map.join(used.symbols[i], 0)};
  });
}

ECQ_INLINE errc tans::decoder::decode(const chunk_bytes& chunk, std::uint8_t* out) const {
  detail::bit_stack_cursor cursor;
  if (!begin(cursor, chunk, out)) return errc::corrupt;
  return entries_.empty() ? detail::decode_unmoved_stacks(chunk, only_, out) : finish(cursor);
}

ECQ_INLINE void tans::decoder::decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                           std::span<errc> verdicts, instruction_set isa) const {
  const instruction_set chosen = chosen_instruction_set(isa);
  if (entries_.empty() || chosen == instruction_set::scalar) {
    for (std::size_t i = 0; i < chunks.size(); ++i) verdicts[i] = decode(chunks[i], out[i]);
    return;
  }
  detail::decode_side_by_side<detail::bit_stack_cursor>(
      verdicts, [&](detail::bit_stack_cursor& cursor, std::size_t i) { return begin(cursor, chunks[i], out[i]); },
      [&](std::span<detail::bit_stack_cursor*> cursors) {
        detail::bit_stack_advance(detail::tans_lookup{entries_.data()}, chosen, cursors);
      },
      [&](const detail::bit_stack_cursor& cursor, std::size_t) { return finish(cursor); });
}

ECQ_INLINE bool tans::decoder::begin(detail::bit_stack_cursor& cursor, const chunk_bytes& chunk,
                                     std::uint8_t* out) const {
  if (!cursor.begin(chunk, out)) return false;
  std::uint32_t highest = 0;
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    cursor.state[lane] = load_le<std::uint16_t>(chunk.states + detail::bit_stack_bytes + 2 * lane);
    highest = (std::max)(highest, cursor.state[lane]);
  }
  return highest < (std::max)(entries_.size(), std::size_t{1});
}

ECQ_INLINE errc tans::decoder::finish(const detail::bit_stack_cursor& cursor) const {
  return cursor.finish([entries = entries_.data()](std::uint32_t& state, std::uint32_t stack) {
    const tans_entry entry = entries[state];
    state = entry.base + (stack & ((1U << entry.bits) - 1U));
    return entry;
  });
}

ECQ_INLINE coding_plan<tans::table> tans::plan(std::span<const histogram> classes, unsigned most_raw_bits) {
  return detail::smallest_split<table>(classes, most_raw_bits, [](const histogram& coded) {
    const table frequencies = {normalize_frequencies(coded, coded.distinct() > 64 ? 12 : 11)};
    return std::pair(frequencies, coded_bits(coded, frequencies.frequencies));
  });
}

}  // namespace ecq
