#pragma once
/// \file
/// Definition of narrow pairs.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/entropy/frequencies.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/narrow_pairs.hpp"

namespace ecq::detail {

/// Number of nibbles that narrow pairs use.
inline constexpr std::size_t narrow_nibbles = 8;

/// A stream optimised for speed has at most one escape in this many codes. With more escapes, pairs decode no faster
/// than single codes.
inline constexpr std::uint64_t codes_of_escape = 100;

/// Largest number of different pairs for which an alias table has 32 buckets. AVX2 kernels, whose byte look-ups have 16
/// entries, decode such pairs 1.2 to 1.3 times as fast as 64 pairs; AVX-512 kernels are a twentieth faster. On Arm it
/// was not measured.
inline constexpr std::size_t few_pairs = 32;

/// Largest cost of escaping rare pairs so that at most few_pairs remain, in thousandths of a bit per code.
inline constexpr std::uint64_t few_pairs_allowance = 10;

/// A stream whose rare pairs are escaped so that at most few_pairs remain has at most one escape in this many codes.
inline constexpr std::uint64_t codes_of_escape_of_few_pairs = 400;

/// Assumed cost, in bits on top of the raw bits, of a code without a nibble of its own: its byte, its nibble, and the
/// same again for decoding time. The choice of the other nibbles depends on it.
inline constexpr std::uint64_t escape_price = 24;

ECQ_INLINE code_pair_counts::code_pair_counts(const histogram& codes) {
  for (std::size_t code = 0; code < 256; ++code) {
    if (codes.counts[code] == 0) continue;
    number_[code] = static_cast<std::uint8_t>(codes_.size());
    codes_.push_back(static_cast<std::uint8_t>(code));
  }
  pairs_.resize(codes_.size() * codes_.size());
}

ECQ_INLINE void code_pair_counts::add(std::span<const std::uint8_t> chunk) {
  const std::size_t whole = chunk.size() / 2;
  for (std::size_t i = 0; i < whole; ++i) {
    ++pairs_[number_[chunk[2 * i]] * codes_.size() + number_[chunk[2 * i + 1]]];
  }
  if (chunk.size() % 2 != 0) ++odd_.counts[chunk.back()];
}

ECQ_INLINE code_pair_counts& code_pair_counts::operator+=(const code_pair_counts& other) {
  std::transform(pairs_.begin(), pairs_.end(), other.pairs_.begin(), pairs_.begin(), std::plus<>());
  odd_ += other.odd_;
  return *this;
}

ECQ_INLINE histogram code_pair_counts::coded(const symbol_pairing& pairing) const {
  histogram counted;
  const std::uint64_t* count = pairs_.data();
  for (const std::uint8_t first : codes_) {
    for (const std::uint8_t second : codes_) {
      counted.counts[pairing.pair_of(first, second)] += *count++;
    }
    counted.counts[pairing.last_pair_of(first)] += odd_.counts[first];
  }
  return counted;
}

/// Chooses the symbols of narrow pairs, at most `most` of them. Each symbol is the base of a run of 2^raw_bits codes,
/// modulo 256; runs do not overlap. The choice minimises the information of the symbols plus the price of all other
/// codes.
ECQ_INLINE std::vector<std::uint8_t> choose_bases(const histogram& counts, unsigned raw_bits, std::size_t most) {
  const unsigned width = static_cast<unsigned>(std::bit_width(counts.total()));
  std::array<std::uint64_t, 256> weights{};  // 31 bits in all, as in normalize_frequencies
  for (std::size_t code = 0; code < 256; ++code) {
    const std::uint64_t weight = counts.counts[code] >> (width > 30 ? width - 30 : 0);
    weights[code] = counts.counts[code] != 0 ? (std::max)(weight, std::uint64_t{1}) : 0;
  }
  // Runs do not cross the end of the longest gap, where codes are seldom neighbours: codes are numbered from there.
  std::size_t origin = 0;
  for (std::size_t code = 0, gap = 0, longest = 0; code < 512; ++code) {
    gap = weights[code % 256] == 0 ? gap + 1 : 0;
    if (gap > longest && gap <= 256) longest = gap, origin = code + 1;
  }
  const auto weight_at = [&](std::size_t place) { return weights[(origin + place) % 256]; };
  std::array<std::uint64_t, 257> before{};
  for (std::size_t place = 0; place < 256; ++place) before[place + 1] = before[place] + weight_at(place);
  const auto logarithm = [](std::uint64_t value) { return log2_fixed(static_cast<std::uint32_t>(value)) >> 16; };
  const std::uint64_t whole = logarithm((std::max)(before[256], std::uint64_t{1}));
  const std::size_t run = std::size_t{1} << raw_bits;
  // least[left][place]: the least price of all codes from `place` on, with `left` symbols to spend.
  std::vector<std::array<std::uint64_t, 257>> least(most + 1);
  std::vector<std::array<bool, 257>> begins(most + 1);
  for (std::size_t left = 0; left <= most; ++left) {
    least[left][256] = 0;
    for (std::size_t place = 256; place-- > 0;) {
      least[left][place] = least[left][place + 1] + ((weight_at(place) * escape_price) << 16);
      begins[left][place] = false;
      if (left == 0 || weight_at(place) == 0) continue;
      const std::size_t end = (std::min)(place + run, std::size_t{256});
      const std::uint64_t inside = before[end] - before[place];
      const std::uint64_t price = inside * (whole - logarithm(inside)) + least[left - 1][end];
      if (price > least[left][place]) continue;
      least[left][place] = price;
      begins[left][place] = true;
    }
  }
  std::vector<std::uint8_t> bases;
  for (std::size_t place = 0; place < 256;) {
    const bool base = begins[most - bases.size()][place];
    if (base) bases.push_back(static_cast<std::uint8_t>(origin + place));
    place += base ? run : 1;
  }
  return bases;
}

ECQ_INLINE symbol_pairing narrow_pairing(const histogram& counts, unsigned raw_bits, bool escapes) {
  const std::size_t run = std::size_t{1} << raw_bits;
  std::array<bool, 256> covered{};
  const auto missed = [&](std::span<const std::uint8_t> bases) {
    covered = {};
    for (const std::uint8_t base : bases) {
      for (std::size_t raw = 0; raw < run; ++raw) covered[(base + raw) % 256] = true;
    }
    for (std::size_t code = 0; code < 256; ++code) {
      if (counts.counts[code] != 0 && !covered[code]) return true;
    }
    return false;
  };
  auto bases = choose_bases(counts, raw_bits, narrow_nibbles);
  const bool escaping = escapes || missed(bases);
  if (escaping) bases = choose_bases(counts, raw_bits, narrow_nibbles - 1);
  std::sort(bases.begin(), bases.end());
  // Every nibble must stand for a symbol, so unused symbols fill up the list. They follow the smallest base, which
  // therefore is nibble 0, like the nibble beside an odd last code.
  std::array<bool, 256> listed{};
  for (const std::uint8_t base : bases) listed[base] = true;
  const std::size_t wanted = escaping ? nibble_list::bytes - 1 : nibble_list::bytes;
  std::size_t filler = bases.empty() ? 0 : bases.front();
  for (std::size_t many = bases.size(); many < wanted; filler = (filler + 1) % 256) {
    many += listed[filler] ? 0U : 1U;
    listed[filler] = true;
  }
  nibble_list list;
  list.symbols = {};
  for (std::size_t symbol = 0, next = 0; next < wanted; ++symbol) {
    if (listed[symbol]) list.symbols[next++] = static_cast<std::uint8_t>(symbol);
  }
  symbol_pairing pairing(list);
  const std::array<std::uint8_t, 256> nibbles = list.nibbles();
  pairing.nibbles.fill(nibble_list::escape_value);
  pairing.raw_bits = raw_bits;
  for (const std::uint8_t base : bases) {
    for (std::size_t raw = 0; raw < run; ++raw) {
      pairing.nibbles[(base + raw) % 256] = nibbles[base];
      pairing.raw[(base + raw) % 256] = static_cast<std::uint8_t>(raw);
    }
  }
  return pairing;
}

ECQ_INLINE void escape_rare_pairs(symbol_pairing& pairing, histogram pairs, std::size_t most) {
  constexpr std::size_t first_escaped = nibble_list::escape_value;  // the second nibble is 0
  constexpr std::size_t both_escaped = 17 * nibble_list::escape_value;
  const unsigned width = static_cast<unsigned>(std::bit_width(pairs.total()));
  for (std::uint64_t& count : pairs.counts) {  // 31 bits in all, as in normalize_frequencies
    if (count != 0) count = (std::max)(count >> (width > 30 ? width - 30 : 0), std::uint64_t{1});
  }
  // Pairs that are escaped later may become one of these two, so both stay.
  for (const std::size_t last : {first_escaped, both_escaped}) ++pairs.counts[last];
  const auto logarithm = [](std::uint64_t value) {
    return static_cast<std::int64_t>(log2_fixed(static_cast<std::uint32_t>(value)) >> 16);
  };
  const auto plogp = [&](std::uint64_t count) { return static_cast<std::int64_t>(count) * logarithm(count); };
  std::array<std::int64_t, 256> known{};
  for (std::size_t pair = 0; pair < known.size(); ++pair) {
    if (pairs.counts[pair] != 0) known[pair] = plogp(pairs.counts[pair]);
  }
  while (pairs.distinct() > most) {
    std::int64_t least = (std::numeric_limits<std::int64_t>::max)();
    std::size_t rare = 0, instead = 0;
    for (std::size_t pair = 0; pair < 256; ++pair) {
      const std::uint64_t count = pairs.counts[pair];
      if (count == 0 || pair == first_escaped || pair == both_escaped) continue;
      const auto attempt = [&](std::size_t other) {
        if (other == pair || pairs.counts[other] == 0) return;
        const int escapes = (pair % 16 != other % 16 ? 1 : 0) + (pair / 16 != other / 16 ? 1 : 0);
        // Merging two pairs into one saves bits; each escape takes eight.
        const std::int64_t cost = known[pair] + known[other] - plogp(count + pairs.counts[other]) +
                                  (static_cast<std::int64_t>(count * 8U) << 16) * escapes;
        if (cost >= least) return;
        least = cost;
        rare = pair;
        instead = other;
      };
      attempt(pair / 16 * 16 + nibble_list::escape_value);
      if (pair / 16 == 0) continue;  // a second nibble of 0 stays
      attempt(pair % 16 + 16 * std::size_t{nibble_list::escape_value});
      attempt(both_escaped);
    }
    for (std::uint8_t& coded : pairing.coded) {
      if (coded == rare) coded = static_cast<std::uint8_t>(instead);
    }
    pairs.counts[instead] += std::exchange(pairs.counts[rare], 0);
    known[instead] = plogp(pairs.counts[instead]);
  }
}

/// Cost of the parts of a stream that depend on its pairing: the bits of coded pairs, tables, raw bits and escapes, and
/// the number of escapes.
struct narrow_cost {
  std::uint64_t bits = 0;
  std::uint64_t escapes = 0;

  static narrow_cost of(const symbol_pairing& pairing, std::span<const histogram> pairs, std::uint64_t codes,
                        std::uint64_t chunks) {
    const auto plan = rans::plan(pairs, 0);
    narrow_cost cost{plan.bits + codes * pairing.raw_bits};
    for (const histogram& counted : pairs) {
      cost.bits += 8 * rans::table::record_bytes(counted.distinct());
      if (!pairing.list.has_escape()) continue;
      for (std::size_t pair = 0; pair < 256; ++pair) {
        const unsigned in_pair =
            (pair % 16 == nibble_list::escape_value ? 1U : 0U) + (pair / 16 == nibble_list::escape_value ? 1U : 0U);
        cost.escapes += in_pair * counted.counts[pair];
      }
    }
    cost.bits += 8 * cost.escapes + (pairing.list.has_escape() ? 64 * (chunks + 1) : 0);
    return cost;
  }
};

/// Counts the pairs of codes in each class of chunks. The counts serve any pairing.
ECQ_INLINE result<std::vector<code_pair_counts>> count_code_pairs(const cpu& backend, const chunked_elements& chunked,
                                                                  std::span<const histogram> classes) {
  std::vector<code_pair_counts> counted;
  for (const histogram& counts : classes) counted.emplace_back(counts);
  std::mutex guard;
  constexpr std::size_t run = 16;  // chunks that share one set of counters
  ECQ_CHECK(parallel_for(backend, (chunked.chunks() + run - 1) / run, [&](std::size_t task) -> result<void> {
    const std::size_t end = (std::min)(chunked.chunks(), (task + 1) * run);
    symbol_buffer buffer;
    std::optional<code_pair_counts> part;
    for (std::size_t chunk = task * run; chunk < end; ++chunk) {
      const std::uint16_t table = chunked.table_of(chunk);
      if (!part) part.emplace(classes[table]);
      part->add(chunked.symbols(chunk, buffer));
      if (chunk + 1 < end && chunked.table_of(chunk + 1) == table) continue;
      const std::scoped_lock lock(guard);
      counted[table] += *part;
      part.reset();
    }
    return {};
  }));
  return counted;
}

/// The cheapest of the pairings that were tried.
struct cheapest_pairing {
  narrow_choice choice{};
  std::uint64_t bits = ~std::uint64_t{0};
  std::size_t distinct = 0;  ///< number of different pairs

  /// Tries `other`, with which a coder sees the pairs `coded` in each class, and returns its bits. Does not take it if
  /// it has more than `most_escapes` escapes.
  std::uint64_t attempt(const symbol_pairing& other, std::vector<histogram> coded, std::uint64_t codes,
                        std::uint64_t chunks, std::uint64_t most_escapes) {
    const auto cost = narrow_cost::of(other, coded, codes, chunks);
    if (cost.bits >= bits || cost.escapes > most_escapes) return cost.bits;
    bits = cost.bits;
    distinct = sum_of(coded).distinct();
    choice = {other, std::move(coded)};
    return bits;
  }
};

ECQ_INLINE result<narrow_choice> choose_narrow_pairing(const cpu& backend, const chunked_elements& chunked,
                                                       const stream_options& options,
                                                       std::span<const histogram> classes) {
  const histogram all = sum_of(classes);
  const histogram& counts = options.shared_counts != nullptr ? *options.shared_counts : all;
  if (options.narrow_pairs && !options.few_pairs) return narrow_choice{narrow_pairing(counts, *options.narrow_pairs)};
  if (!options.narrow_pairs && options.goal != stream_goal::cpu) return narrow_choice();
  const std::uint64_t codes = counts.total();
  std::vector<code_pair_counts> counted;
  if (options.shared_counts == nullptr) {
    ECQ_TRY(exact, count_code_pairs(backend, chunked, classes));
    counted = std::move(exact);
  }
  const auto pairs_of = [&](const symbol_pairing& pairing) {
    std::vector<histogram> pairs;
    for (const code_pair_counts& each : counted) pairs.push_back(each.coded(pairing));
    if (counted.empty()) {
      pairs.push_back(pair_counts(pairing, counts));
      for (std::uint64_t& count : pairs.back().counts) count -= count / 2;  // half as many pairs as codes
    }
    return pairs;
  };
  const auto few_pairing = [&](unsigned raw_bits) {
    symbol_pairing few = narrow_pairing(counts, raw_bits, true);
    escape_rare_pairs(few, sum_of(pairs_of(few)), few_pairs);
    return few;
  };
  if (options.few_pairs) return narrow_choice{few_pairing(*options.narrow_pairs)};
  const std::uint64_t chunks = counted.empty() ? 0 : chunked.chunks();
  cheapest_pairing best, best_of_few;
  std::array<std::uint64_t, max_narrow_raw_bits + 1> bits{};
  for (unsigned raw_bits = 0; raw_bits <= max_narrow_raw_bits; ++raw_bits) {
    const symbol_pairing pairing = narrow_pairing(counts, raw_bits);
    bits[raw_bits] = best.attempt(pairing, pairs_of(pairing), codes, chunks, codes / codes_of_escape);
  }
  // The cost of single codes, plus the bits that pairs may cost beyond that.
  const std::span<const histogram> singles = options.shared_counts != nullptr ? std::span(&counts, 1) : classes;
  const auto plan = rans::plan(singles);
  std::uint64_t most = plan.bits + codes * plan.map.bits + codes / 1000 * pair_allowance;
  for (const auto& table : plan.tables) most += 8 * rans::table::record_bytes(table.frequencies.count);
  if (best.bits > most) return narrow_choice();
  if (counted.empty()) return narrow_choice{best.choice.pairing};  // its pairs were estimated, not counted
  if (best.distinct <= few_pairs) return std::move(best.choice);
  const std::uint64_t most_of_few = (std::min)(most, best.bits + codes / 1000 * few_pairs_allowance);
  for (unsigned raw_bits = 0; raw_bits <= max_narrow_raw_bits; ++raw_bits) {
    if (bits[raw_bits] > most_of_few) continue;  // fewer pairs hardly lower the cost
    const symbol_pairing few = few_pairing(raw_bits);
    best_of_few.attempt(few, pairs_of(few), codes, chunks, codes / codes_of_escape_of_few_pairs);
  }
  return std::move(best_of_few.bits <= most_of_few ? best_of_few.choice : best.choice);
}

}  // namespace ecq::detail
