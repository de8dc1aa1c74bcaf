#pragma once
/// \file
/// rANS (Duda 2013) in 32 lanes: states of 32 bits in [2^16, 2^32), words of 16 bits. This scalar code is the
/// definition; every other decoder gives the same codes for the same bytes, and the same verdict on bad ones.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_decode.hpp"
#include "ecq/entropy/rans/rans_encode_avx2.hpp"
#include "ecq/entropy/rans/rans_encode_avx512.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/entropy/rans/rans_table.hpp"
#include "ecq/entropy/side_by_side.hpp"

namespace ecq {

/// The coder of this library's streams unless another is asked for.
struct rans {
  static constexpr std::string_view name = "rans";
  static constexpr coder_id id = coder_id::rans;
  static constexpr std::size_t state_bytes = lane_count * 4;
  static constexpr std::uint32_t lower_bound = detail::rans_lower_bound;

  using table = rans_table;

  /// Codes chunks with one table: state x -> (x / f) * 2^scale_bits + slot of rank x % f.
  class encoder {
   public:
    encoder(const table& frequencies, split_map map);

    /// The definition, whatever the machine.
    std::size_t encode(std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words) const;

    /// counts[i] = encode(codes[i], states[i], words[i]) for all i, by the kernels of `isa`: the same words.
    void encode_many(std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
                     std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
                     instruction_set isa) const;

   private:
    /// Division by f < 2^16 of a state x < f * 2^(32 - scale_bits) is exact as x * reciprocal >> (32 + scale_bits),
    /// with reciprocal = ceil(2^(32 + scale_bits) / f).
    struct entry {
      std::uint64_t reciprocal = 0;
      std::uint32_t limit = 0;  ///< states from here on give up a word first
      std::uint32_t start = 0;  ///< of the symbol's slots in slots_ (alias), or its first slot (direct)
      std::uint32_t frequency = 0;
    };

    /// All groups that are left above `down_to`.
    void encode_groups(detail::rans_encode_cursor& cursor, std::size_t down_to) const;
    template <bool Direct>
    void encode_groups_by(detail::rans_encode_cursor& cursor, std::size_t down_to) const;
    /// All groups; whole ones are left.
    void encode_by_avx512(std::span<detail::rans_encode_cursor> cursors) const;
    /// As above, or none.
    void encode_by_avx2(std::span<detail::rans_encode_cursor> cursors) const;

    unsigned raw_bits_;
    unsigned scale_bits_;
    bool constant_;
    std::array<entry, 256> entries_{};
    std::vector<std::uint16_t> slots_;  ///< alias: slot of each symbol's ranks
  };

  class decoder {
   public:
    decoder(const table& frequencies, split_map map) : slots_(frequencies, map) {}

    /// The definition, whatever the machine.
    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const;

    /// verdicts[i] = decode(chunks[i], out[i]) for all i, by the kernels of `isa`: several chunks side by side.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const;

    /// As decode_many, with the symbols of chunk i at targets[i].symbols(); as many elements as kernels join at once, a
    /// multiple of group_symbols, are at targets[i].elements instead, and targets[i].joined says how many.
    void decode_joined(std::span<const chunk_bytes> chunks, const element_join& join, std::span<element_target> targets,
                       std::span<errc> verdicts, instruction_set isa) const;

   private:
    rans_slots slots_;
  };

  /// The smallest of all splits, with alias tables for classes of at most 64 symbols and direct ones for wider; a
  /// plan with alias tables alone may cost 0.01 bit a code more, since it decodes faster.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

inline rans::encoder::encoder(const table& frequencies, split_map map)
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
    start += used[i];
  }
  if (frequencies.mapping != slot_mapping::alias) return;
  slots_.resize(65536 + 1);  // kernels read four bytes a slot
  const alias_table aliases = alias_table::build(used, frequencies.bucket_bits);
  for (std::uint32_t slot = 0; slot < 65536; ++slot) {
    const std::uint32_t bucket = slot & ((1U << aliases.bucket_bits) - 1U);
    const std::uint32_t offset = slot >> aliases.bucket_bits;
    const bool own = offset < aliases.divider[bucket];
    const std::uint32_t rank = own ? offset : (offset + aliases.adjust[bucket]) & 0xFFFFU;
    const std::uint8_t symbol = frequencies.frequencies.symbols[own ? bucket : aliases.alias[bucket]];
    slots_[entries_[symbol].start + rank] = static_cast<std::uint16_t>(slot);
  }
}

inline std::size_t rans::encoder::encode(std::span<const std::uint8_t> codes, std::byte* states,
                                         std::span<std::uint16_t> words) const {
  std::size_t count = 0;
  encode_many({&codes, 1}, &states, {&words, 1}, {&count, 1}, instruction_set::scalar);
  return count;
}

inline void rans::encoder::encode_many(std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
                                       std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
                                       instruction_set isa) const {
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

inline void rans::encoder::encode_groups(detail::rans_encode_cursor& cursor, std::size_t down_to) const {
  if (slots_.empty()) {
    encode_groups_by<true>(cursor, down_to);
  } else {
    encode_groups_by<false>(cursor, down_to);
  }
}

template <bool Direct>
void rans::encoder::encode_groups_by(detail::rans_encode_cursor& cursor, std::size_t down_to) const {
  std::uint32_t state[lane_count];  // a copy that nobody else sees, as in rans_cursor
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
        // Whether a word is due is a coin toss that no predictor learns: arithmetic, where compilers like to branch.
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

inline void rans::encoder::encode_by_avx512([[maybe_unused]] std::span<detail::rans_encode_cursor> cursors) const {
#if ECQ_X86
  if (slots_.empty()) {
    detail::avx512::direct_encoding table;
    for (std::size_t code = 0; code < 256; ++code) {
      const entry& symbol = entries_[code >> raw_bits_];
      table.entries[code] = symbol.frequency | (symbol.start << 16);
    }
    detail::avx512::rans_encode(table, scale_bits_, cursors);
    return;
  }
  detail::avx512::alias_encoding table = {};
  table.slots = slots_.data();
  std::uint8_t number = 0;
  for (std::size_t code = 0; code < 256; ++code) {
    const entry& symbol = entries_[code >> raw_bits_];
    if (symbol.frequency == 0) continue;
    table.number_of_code[code] = number;
    table.frequency[number] = static_cast<std::uint16_t>(symbol.frequency);
    table.start[number] = static_cast<std::uint16_t>(symbol.start);
    if (code + 1 < 256 && (code + 1) >> raw_bits_ != code >> raw_bits_) ++number;
  }
  detail::avx512::rans_encode(table, scale_bits_, cursors);
#endif
}

inline void rans::encoder::encode_by_avx2([[maybe_unused]] std::span<detail::rans_encode_cursor> cursors) const {
#if ECQ_X86
  if (scale_bits_ < detail::avx2::rans_encoding::min_scale_bits) return;
  detail::avx2::rans_encoding table;
  for (std::size_t code = 0; code < 256; ++code) {
    const entry& symbol = entries_[code >> raw_bits_];
    if (symbol.frequency != 0) table.add(code, symbol.frequency, symbol.start);
  }
  table.slots = slots_.empty() ? nullptr : slots_.data();
  detail::avx2::rans_encode(table, scale_bits_, cursors);
#endif
}

inline errc rans::decoder::decode(const chunk_bytes& chunk, std::uint8_t* out) const {
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

inline void rans::decoder::decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                       std::span<errc> verdicts, instruction_set isa) const {
  constexpr std::size_t batch = 16;
  for (std::size_t first = 0; first < chunks.size(); first += batch) {
    const std::size_t count = (std::min)(batch, chunks.size() - first);
    element_target targets[batch];
    for (std::size_t i = 0; i < count; ++i) targets[i].elements = reinterpret_cast<std::byte*>(out[first + i]);
    decode_joined(chunks.subspan(first, count), {}, {targets, count}, verdicts.subspan(first, count), isa);
  }
}

inline void rans::decoder::decode_joined(std::span<const chunk_bytes> chunks, const element_join& join,
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
        return cursor.begin(chunks[i], symbols(i));
      },
      [&](std::span<detail::rans_cursor*> cursors) { detail::rans_advance(table, join, chosen, cursors); },
      [&](const detail::rans_cursor& cursor, std::size_t i) {
        const auto joined = static_cast<std::size_t>(cursor.element - targets[i].elements) / join.width;
        targets[i].joined = static_cast<std::uint32_t>(joined);
        return table.visit([&](const auto& slots) { return cursor.finish(slots); });
      });
}

inline coding_plan<rans_table> rans::plan(std::span<const histogram> classes, unsigned most_raw_bits) {
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

static_assert(entropy_coder<rans>);
static_assert(decodable_on<rans, cpu>);

}  // namespace ecq
