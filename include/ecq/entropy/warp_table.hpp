#pragma once
/// \file
/// Decode tables as a warp reads them. Each is an image of 32-bit entries that can be copied anywhere, such as to a
/// device.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/rans/alias_table.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"

namespace ecq {

/// Coding of a chunk's symbols, which decides which step of entropy/step_warp.hpp reads the table.
enum class warp_coding : std::uint8_t {
  raw,       ///< nothing is coded, and there are no states
  constant,  ///< only one symbol, and states that never moved
  rans_alias,
  rans_direct,
  rans_wide,  ///< direct, with more than 2^12 slots
  tans,
  tans_constant,  ///< like constant, with the states of tans
  huffman,
  huffman_gaps  ///< decoded by a group of threads: entropy/huffman_gaps/huffman_gap_table.hpp
};

/// Returns the coder whose tables have this coding; raw for codings that code nothing.
constexpr coder_id coder_of(warp_coding coding) noexcept {
  switch (coding) {
    case warp_coding::rans_alias:
    case warp_coding::rans_direct:
    case warp_coding::rans_wide: return coder_id::rans;
    case warp_coding::tans:
    case warp_coding::tans_constant: return coder_id::tans;
    case warp_coding::huffman: return coder_id::huffman;
    case warp_coding::huffman_gaps: return coder_id::huffman_gaps;
    default: return coder_id::raw;
  }
}

/// Description of a decode table. Its entries begin at `first` in an image that holds the entries of all tables of a
/// stream. Decoded bytes are symbols shifted left by the map's raw bits. The entries are:
///  - rans_alias: for each of the 2^bits buckets, the last slot that is not its alias's; then, for each bucket, one
///    entry with the frequency (bits 0..15) and decoded byte (16..23) of its own symbol, one with the number to add to
///    slot >> bits for a rank, modulo 2^32, and the same two for its alias;
///  - rans_direct: for each of the 2^bits slots, bits <= 12, decoded byte (0..7), rank (8..19) and frequency (20..31);
///  - rans_wide: for each slot, rank (0..15) and frequency (16..31); then all decoded bytes, four per entry;
///  - tans: for each of the 2^bits states, the number of bits that it takes (0..4), decoded byte (8..15) and base
///    (16..31);
///  - huffman: indexed by the first `bits` bits of a stack, the length of the code word (0..4) and the decoded byte
///    (8..15). If the code word is longer, the length is 0, and bits 16..31 number a table indexed by the next
///    `bits_behind` bits; such tables follow the first one in order of their numbers, and their entries hold the whole
///    length;
///  - huffman_gaps: as append_gap_table describes;
///  - raw, constant, tans_constant: none.
struct warp_table {
  std::uint32_t first = 0;
  std::uint32_t entries = 0;
  warp_coding coding = warp_coding::constant;
  std::uint8_t bits = 0;
  std::uint8_t bits_behind = 0;
  std::uint8_t constant_code = 0;  ///< the decoded byte if there is only one symbol
};

namespace detail {

inline std::uint32_t four_bytes(const std::uint8_t* from) {
  return from[0] | (std::uint32_t{from[1]} << 8) | (std::uint32_t{from[2]} << 16) | (std::uint32_t{from[3]} << 24);
}

/// Pads the image to an even number of entries, because pairs of entries are read at once.
inline void align_to_pairs(std::vector<std::uint32_t>& image) { image.resize((image.size() + 1) / 2 * 2); }

inline void append_alias_entries(const rans_table& table, split_map map, std::vector<std::uint32_t>& image) {
  const frequency_table& used = table.frequencies;
  const alias_table aliases = alias_table::build(table.used_frequencies(), table.bucket_bits);
  const std::uint32_t buckets = 1U << table.bucket_bits;
  for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const std::uint32_t own_slots = std::uint32_t{aliases.divider[bucket]} << table.bucket_bits;
    // Not all slots below own_slots are the bucket's: it has one of every 2^bucket_bits.
    image.push_back(own_slots == 0 ? 65535U : own_slots - 1);
  }
  for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const std::uint32_t alias = aliases.alias[bucket];
    const std::uint32_t own = aliases.divider[bucket] == 0 ? alias : bucket;
    // Ranks are at least 0, so `adjust` modulo 2^16 determines `adjust`.
    const std::uint32_t adjust = aliases.adjust[bucket];
    const std::uint32_t beyond = adjust + aliases.divider[bucket] < 65536 ? adjust : adjust - 65536U;
    const auto add = [&](std::uint32_t number, std::uint32_t more) {
      // The alias of a full bucket is never looked up.
      const bool used_at_all = number < used.count;
      image.push_back(used_at_all ? used.frequencies[number] | (std::uint32_t{map.join(used.symbols[number], 0)} << 16)
                                  : 0U);
      image.push_back(more);
    };
    add(own, own == bucket ? 0 : beyond);
    add(alias, beyond);
  }
}

inline void append_slot_entries(const rans_table& table, split_map map, std::vector<std::uint32_t>& image) {
  const frequency_table& used = table.frequencies;
  const bool wide = used.scale_bits > 12;
  std::vector<std::uint8_t> codes;
  for (std::size_t number = 0; number < used.count; ++number) {
    const std::uint8_t code = map.join(used.symbols[number], 0);
    const std::uint32_t frequency = used.frequencies[number];
    for (std::uint32_t rank = 0; rank < frequency; ++rank) {
      image.push_back(wide ? rank | (frequency << 16) : code | (rank << 8) | (frequency << 20));
    }
    codes.insert(codes.end(), wide ? frequency : 0, code);
  }
  for (std::size_t at = 0; at < codes.size(); at += 4) image.push_back(four_bytes(&codes[at]));
}

inline void append_code_words(const huffman::table& table, split_map map, unsigned bits, unsigned behind,
                              std::vector<std::uint32_t>& image) {
  constexpr std::uint32_t unset = ~0U;
  const std::size_t first = image.size();
  image.resize(first + (std::size_t{1} << bits), unset);
  std::uint32_t tables = 0;
  for (unsigned i = 0; i < table.count; ++i) {
    const unsigned length = table.lengths[i];
    const std::uint32_t word = table.words[i];
    const std::uint32_t entry = length | (std::uint32_t{map.join(table.symbols[i], 0)} << 8);
    if (length <= bits) {
      for (std::size_t at = word; at < std::size_t{1} << bits; at += std::size_t{1} << length)
        image[first + at] = entry;
      continue;
    }
    const std::size_t beginning = first + (word & ((1U << bits) - 1U));
    if (image[beginning] == unset) {
      image[beginning] = tables++ << 16;
      image.resize(image.size() + (std::size_t{1} << behind));
    }
    const std::size_t base = first + (std::size_t{1} << bits) + (std::size_t{image[beginning] >> 16} << behind);
    for (std::size_t at = word >> bits; at < std::size_t{1} << behind; at += std::size_t{1} << (length - bits)) {
      image[base + at] = entry;
    }
  }
}

/// Appends entries with `append` and returns their description.
template <class Append>
warp_table described(warp_coding coding, unsigned bits, std::vector<std::uint32_t>& image, Append&& append) {
  warp_table table;
  table.first = static_cast<std::uint32_t>(image.size());
  table.coding = coding;
  table.bits = static_cast<std::uint8_t>(bits);
  append();
  table.entries = static_cast<std::uint32_t>(image.size()) - table.first;
  return table;
}

inline warp_table constant_warp_table(warp_coding coding, std::uint8_t symbol, split_map map) {
  warp_table table;
  table.coding = coding;
  table.constant_code = map.join(symbol, 0);
  return table;
}

}  // namespace detail

/// Appends nothing: coder raw has nothing to look up.
inline warp_table append_warp_table(const raw::table&, split_map, std::vector<std::uint32_t>&) {
  return {.coding = warp_coding::raw};
}

/// Appends the entries of a decode table for rANS to `image`, which has fewer than 2^32 entries, and describes them.
inline warp_table append_warp_table(const rans_table& table, split_map map, std::vector<std::uint32_t>& image) {
  const frequency_table& used = table.frequencies;
  if (used.count == 1) return detail::constant_warp_table(warp_coding::constant, used.symbols[0], map);
  if (table.mapping == slot_mapping::alias) {
    detail::align_to_pairs(image);
    return detail::described(warp_coding::rans_alias, table.bucket_bits, image,
                             [&] { detail::append_alias_entries(table, map, image); });
  }
  return detail::described(used.scale_bits > 12 ? warp_coding::rans_wide : warp_coding::rans_direct, used.scale_bits,
                           image, [&] { detail::append_slot_entries(table, map, image); });
}

/// Appends the entries of a decode table for tANS to `image`, which has fewer than 2^32 entries, and describes them.
inline warp_table append_warp_table(const tans_table& table, split_map map, std::vector<std::uint32_t>& image) {
  const tans::decoder decoder(table, map);
  if (decoder.entries().empty())
    return detail::constant_warp_table(warp_coding::tans_constant, table.frequencies.symbols[0], map);
  return detail::described(warp_coding::tans, table.bits(), image, [&] {
    for (const tans_entry& entry : decoder.entries()) {
      image.push_back(entry.bits | (std::uint32_t{entry.code} << 8) | (std::uint32_t{entry.base} << 16));
    }
  });
}

/// Appends the entries of a decode table for Huffman codes to `image`, which has fewer than 2^32 entries, and describes
/// them.
inline warp_table append_warp_table(const huffman::table& table, split_map map, std::vector<std::uint32_t>& image) {
  constexpr unsigned most_bits = 11;  // the first table takes 8 KiB
  if (table.count == 1) return detail::constant_warp_table(warp_coding::constant, table.symbols[0], map);
  const unsigned bits = (std::min)(table.longest, most_bits);
  const unsigned behind = table.longest - bits;
  warp_table described = detail::described(warp_coding::huffman, bits, image,
                                           [&] { detail::append_code_words(table, map, bits, behind, image); });
  described.bits_behind = static_cast<std::uint8_t>(behind);
  return described;
}

/// Coders that a warp decodes.
template <class Coder>
concept has_warp_table =
    requires(const typename Coder::table& table, split_map map, std::vector<std::uint32_t>& image) {
      { append_warp_table(table, map, image) } -> std::same_as<warp_table>;
    };

}  // namespace ecq
