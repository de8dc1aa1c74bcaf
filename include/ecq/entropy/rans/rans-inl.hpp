#pragma once
/// \file
/// Definition of rANS in 32 lanes: the scalar code, which defines the format, and the choice of kernels.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/rans/alias_encode_avx512.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/rans/rans_decode.hpp"
#include "ecq/entropy/rans/rans_encode_avx2.hpp"
#include "ecq/entropy/rans/rans_encode_avx512.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq {

ECQ_INLINE rans::encoder::encoder(const table& frequencies, split_map map)
    : raw_bits_(map.bits),
      scale_bits_(frequencies.frequencies.scale_bits),
      constant_(frequencies.frequencies.count == 1) {
  if (constant_) return;
  const auto used = frequencies.used_frequencies();
  std::uint32_t start = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const std::uint64_t one = std::uint64_t{1} << (32 + scale_bits_);
    entries_[frequencies.frequencies.symbols[i]] = {(one + used[i] - 1) / used[i], used[i] << (32 - scale_bits_), start,
                                                    used[i]};
    numbers_[frequencies.frequencies.symbols[i]] = static_cast<std::uint8_t>(i);
    start += used[i];
  }
  if (frequencies.mapping != slot_mapping::alias) return;
  slots_.resize(65536 + 1);  // kernels read four bytes per slot
  const alias_table aliases = alias_table::build(used, frequencies.bucket_bits);
  alias_ = {used, aliases};
  for (std::uint32_t slot = 0; slot < 65536; ++slot) {
    const std::uint32_t bucket = slot & ((1U << aliases.bucket_bits) - 1U);
    const std::uint32_t offset = slot >> aliases.bucket_bits;
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t rank = own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU;
    const std::uint8_t symbol = frequencies.frequencies.symbols[own ? bucket : aliases.alias[bucket]];
    slots_[entries_[symbol].start + rank] = static_cast<std::uint16_t>(slot);
  }
}

ECQ_INLINE std::size_t rans::encoder::encode(std::span<const std::uint8_t> codes, std::byte* states,
                                             std::span<std::uint16_t> words) const {
  std::size_t count = 0;
  encode_many({&codes, 1}, &states, {&words, 1}, {&count, 1}, instruction_set::scalar);
  return count;
}

ECQ_INLINE void rans::encoder::encode_many(std::span<const std::span<const std::uint8_t>> codes,
                                           std::byte* const* states, std::span<const std::span<std::uint16_t>> words,
                                           std::span<std::size_t> counts, instruction_set isa) const {
  using cursor = detail::rans_encode_cursor;
  const instruction_set chosen = constant_ ? instruction_set::scalar : chosen_instruction_set(isa);
  detail::encode_side_by_side<cursor>(
      codes.size(), [&](cursor& chunk, std::size_t i) { chunk.begin(codes[i], words[i]); },
      [&](cursor& chunk, std::size_t down_to) {
        if (!constant_) encode_groups(chunk, down_to);
      },
      [&](std::span<cursor> chunks) {
        if (chosen == instruction_set::avx512) encode_by_avx512(chunks);
        if (chosen == instruction_set::avx2) encode_by_avx2(chunks);
      },
      [&](const cursor& chunk, std::size_t i) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) store_le(states[i] + 4 * lane, chunk.state[lane]);
        counts[i] = static_cast<std::size_t>(words[i].data() + words[i].size() - chunk.word);
      });
}

ECQ_INLINE void rans::encoder::encode_groups(detail::rans_encode_cursor& cursor, std::size_t down_to) const {
  if (slots_.empty()) {
    encode_groups_by<true>(cursor, down_to);
  } else {
    encode_groups_by<false>(cursor, down_to);
  }
}

template <bool Direct>
void rans::encoder::encode_groups_by(detail::rans_encode_cursor& cursor, std::size_t down_to) const {
  std::uint32_t state[lane_count];  // a local copy, as in rans_cursor
  std::copy_n(cursor.state, lane_count, state);
  std::uint16_t* word = cursor.word;
  const unsigned scale = Direct ? scale_bits_ : 16;
  const unsigned shift = 32 + scale;
  const std::span<const std::uint8_t> codes = cursor.codes;
  for (std::size_t group = (codes.size() + group_symbols - 1) / group_symbols; group-- > down_to;) {
    const std::uint8_t* in = codes.data() + group * group_symbols;
    const auto left = static_cast<std::uint32_t>(
        (std::min)(codes.size() - group * group_symbols, static_cast<std::size_t>(group_symbols)));
    for (std::uint32_t round = rounds_per_group; round-- > 0;) {
      for (std::uint32_t lane = lanes_in_step(left, round); lane-- > 0;) {
        const entry& symbol = entries_[in[lane * rounds_per_group + round] >> raw_bits_];
        std::uint32_t x = state[lane];
        // No branch predictor learns whether a word is due, so this is arithmetic, although compilers prefer a branch.
        const std::uint32_t full = x >= symbol.limit ? 1 : 0;
        word[-1] = static_cast<std::uint16_t>(x);
        word -= full;
        x >>= 16 * full;
        const auto quotient = static_cast<std::uint32_t>((x * symbol.reciprocal) >> shift);
        const std::uint32_t at = symbol.start + x - quotient * symbol.frequency;
        state[lane] = (quotient << scale) + (Direct ? at : slots_[at]);
      }
    }
  }
  std::copy_n(state, lane_count, cursor.state);
  cursor.word = word;
  cursor.codes = codes.first((std::min)(codes.size(), down_to * group_symbols));
}

ECQ_INLINE detail::encode_entries rans::encoder::encode_entries() const {
  detail::encode_entries entries;
  for (std::size_t code = 0; code < 256; ++code) {
    const entry& symbol = entries_[code >> raw_bits_];
    if (symbol.frequency != 0) entries.add(code, symbol.frequency, symbol.start);
  }
  return entries;
}

ECQ_INLINE void rans::encoder::encode_by_avx512([[maybe_unused]] std::span<detail::rans_encode_cursor> cursors) const {
#if ECQ_X86
  if (scale_bits_ < detail::float_division::min_scale_bits) return;
  if (slots_.empty()) {
    detail::avx512::rans_encode(detail::avx512::direct_encoding{scale_bits_, encode_entries()}, cursors);
    return;
  }
  std::uint8_t number_of_code[256];
  for (std::size_t code = 0; code < 256; ++code) number_of_code[code] = numbers_[code >> raw_bits_];
  detail::avx512::rans_encode(alias_, number_of_code, cursors);
#endif
}

ECQ_INLINE void rans::encoder::encode_by_avx2([[maybe_unused]] std::span<detail::rans_encode_cursor> cursors) const {
#if ECQ_X86
  if (scale_bits_ < detail::float_division::min_scale_bits) return;
  const detail::avx2::rans_encoding table = {encode_entries(), slots_.empty() ? nullptr : slots_.data()};
  detail::avx2::rans_encode(table, scale_bits_, cursors);
#endif
}

ECQ_INLINE errc rans::decoder::decode(const chunk_bytes& chunk, std::uint8_t* out) const {
  const rans_slots_view table = slots_.view();
  if (!table.constant) {
    detail::rans_cursor cursor;
    if (!cursor.begin(chunk, out)) return errc::corrupt;
    return table.visit([&](const auto& slots) { return cursor.finish(slots); });
  }
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    if (load_le<std::uint32_t>(chunk.states + 4 * lane) != lower_bound) return errc::corrupt;
  }
  std::memset(out, table.constant_code, chunk.symbols);
  return chunk.word_count == 0 ? errc::ok : errc::corrupt;
}

ECQ_INLINE void rans::decoder::decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                           std::span<errc> verdicts, instruction_set isa) const {
  constexpr std::size_t batch = 16;
  for (std::size_t first = 0; first < chunks.size(); first += batch) {
    const std::size_t count = (std::min)(batch, chunks.size() - first);
    element_target targets[batch];
    for (std::size_t i = 0; i < count; ++i) targets[i].elements = reinterpret_cast<std::byte*>(out[first + i]);
    decode_joined(chunks.subspan(first, count), {}, {targets, count}, verdicts.subspan(first, count), isa);
  }
}

ECQ_INLINE void rans::decoder::decode_joined(std::span<const chunk_bytes> chunks, const element_join& join,
                                             std::span<element_target> targets, std::span<errc> verdicts,
                                             instruction_set isa) const {
  const rans_slots_view table = slots_.view();
  const instruction_set chosen = chosen_instruction_set(isa);
  const auto symbols = [&](std::size_t i) { return targets[i].symbols(join.width, chunks[i].symbols); };
  for (element_target& target : targets) target.joined = 0;
  if (table.constant || chosen == instruction_set::scalar) {
    for (std::size_t i = 0; i < chunks.size(); ++i) verdicts[i] = decode(chunks[i], symbols(i));
    return;
  }
  detail::decode_side_by_side<detail::rans_cursor>(
      verdicts,
      [&](detail::rans_cursor& cursor, std::size_t i) {
        cursor.raw = targets[i].raw;
        cursor.element = targets[i].elements;
        cursor.escape = targets[i].escape;
        cursor.escape_end = targets[i].escape_end;
        return cursor.begin(chunks[i], symbols(i));
      },
      [&](std::span<detail::rans_cursor*> cursors) { detail::rans_advance(table, join, chosen, cursors); },
      [&](const detail::rans_cursor& cursor, std::size_t i) {
        const auto joined = static_cast<std::size_t>(cursor.element - targets[i].elements) / join.width;
        targets[i].joined = static_cast<std::uint32_t>(joined);
        targets[i].escape = cursor.escape;
        return table.visit([&](const auto& slots) { return cursor.finish(slots); });
      });
}

ECQ_INLINE coding_plan<rans_table> rans::plan(std::span<const histogram> classes, unsigned most_raw_bits) {
  coding_plan<table> best;
  std::uint64_t best_cost = ~std::uint64_t{0};
  std::uint64_t codes = 0;
  for (const histogram& counted : classes) codes += counted.total();
  for (unsigned raw_bits = 0; raw_bits <= most_raw_bits; ++raw_bits) {
    coding_plan<table> candidate;
    candidate.map = {raw_bits};
    std::uint64_t record_bits = 0;
    bool wide = false;
    for (const histogram& counted : classes) {
      histogram coded;
      for (std::size_t code = 0; code < 256; ++code) coded.counts[code >> raw_bits] += counted.counts[code];
      const unsigned symbols = coded.distinct();
      const auto shape = detail::rans_shape::of(symbols);
      candidate.tables.push_back({.mapping = shape.mapping,
                                  .bucket_bits = shape.bucket_bits,
                                  .frequencies = normalize_frequencies(coded, shape.scale_bits)});
      candidate.bits += coded_bits(coded, candidate.tables.back().frequencies);
      record_bits += 8 * table::record_bytes(symbols);
      wide = wide || shape.mapping == slot_mapping::direct;
    }
    const std::uint64_t cost = detail::rans_cost(codes, raw_bits, candidate.bits, record_bits, wide);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace ecq
