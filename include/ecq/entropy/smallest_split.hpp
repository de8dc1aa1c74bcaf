#pragma once
/// \file
/// Choice of a split by exact size.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ecq/entropy/entropy_coder.hpp"

namespace ecq::detail {

/// Returns the plan for the split of at most `most_raw_bits` raw bits that takes the fewest bits, tables included;
/// among equals, the split with the fewest raw bits. `code(histogram of coded symbols)` returns a pair: a table, and
/// the number of bits that the symbols take with it.
template <class Table, class Code>
coding_plan<Table> smallest_split(std::span<const histogram> classes, unsigned most_raw_bits, Code&& code) {
  coding_plan<Table> best;
  std::uint64_t best_cost = ~std::uint64_t{0};
  std::uint64_t codes = 0;
  for (const histogram& counted : classes) codes += counted.total();
  for (unsigned raw_bits = 0; raw_bits <= most_raw_bits; ++raw_bits) {
    coding_plan<Table> candidate;
    candidate.map = {raw_bits};
    std::uint64_t cost = codes * raw_bits;
    for (const histogram& counted : classes) {
      histogram coded;
      for (std::size_t symbol = 0; symbol < 256; ++symbol) coded.counts[symbol >> raw_bits] += counted.counts[symbol];
      auto [table, bits] = code(coded);
      cost += bits + 8 * Table::record_bytes(coded.distinct());
      candidate.bits += bits;
      candidate.tables.push_back(std::move(table));
    }
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace ecq::detail
