#pragma once
/// \file
/// Definition of lengths of prefix codes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/entropy/huffman/code_lengths.hpp"

namespace ecq {

namespace detail {

/// A symbol that occurs, with its count. Lists are sorted by ascending count, the larger symbol first among equals.
struct counted_symbol {
  std::uint64_t count;
  std::uint8_t symbol;
};

inline std::vector<counted_symbol> symbols_by_count(const histogram& codes) {
  std::vector<counted_symbol> symbols;
  for (unsigned symbol = 256; symbol-- > 0;) {
    if (codes.counts[symbol] != 0) symbols.push_back({codes.counts[symbol], static_cast<std::uint8_t>(symbol)});
  }
  std::stable_sort(symbols.begin(), symbols.end(),
                   [](const counted_symbol& a, const counted_symbol& b) { return a.count < b.count; });
  return symbols;
}

}  // namespace detail

ECQ_INLINE code_lengths huffman_code_lengths(const histogram& codes) {
  code_lengths lengths{};
  const auto symbols = detail::symbols_by_count(codes);
  const std::size_t leaves = symbols.size();
  if (leaves < 2) return lengths;
  // Nodes 0 .. leaves - 1 are symbols. The others are pairs, in the order in which they are made, which is by ascending
  // weight.
  std::vector<std::uint64_t> weight(2 * leaves - 1);
  std::vector<std::size_t> parent(2 * leaves - 1);
  std::size_t leaf = 0;
  std::size_t pair = leaves;
  for (std::size_t i = 0; i < leaves; ++i) weight[i] = symbols[i].count;
  for (std::size_t made = leaves; made < weight.size(); ++made) {
    for (int child = 0; child < 2; ++child) {
      const bool take_leaf = leaf < leaves && (pair == made || weight[leaf] <= weight[pair]);
      const std::size_t lightest = take_leaf ? leaf++ : pair++;
      weight[made] += weight[lightest];
      parent[lightest] = made;
    }
  }
  std::vector<std::uint8_t> depth(weight.size());
  for (std::size_t node = weight.size() - 1; node-- > 0;) {
    depth[node] = static_cast<std::uint8_t>(depth[parent[node]] + 1);
    if (node < leaves) lengths[symbols[node].symbol] = depth[node];
  }
  return lengths;
}

ECQ_INLINE code_lengths limited_code_lengths(const histogram& codes, unsigned limit) {
  code_lengths lengths{};
  const auto symbols = detail::symbols_by_count(codes);
  if (symbols.size() < 2) return lengths;
  // The list of a level holds, by weight, every symbol and the pairs of neighbours of the level below. The chosen items
  // of a list are always its first ones, so it is enough to know which items are symbols.
  std::vector<std::vector<bool>> is_symbol(limit);
  std::vector<std::uint64_t> below;
  for (auto& level : is_symbol) {
    std::vector<std::uint64_t> list;
    std::size_t leaf = 0;
    for (std::size_t pair = 0; leaf < symbols.size() || pair + 1 < below.size();) {
      const bool has_pair = pair + 1 < below.size();
      const std::uint64_t both = has_pair ? below[pair] + below[pair + 1] : 0;
      const bool take_leaf = leaf < symbols.size() && (!has_pair || symbols[leaf].count <= both);
      list.push_back(take_leaf ? symbols[leaf].count : both);
      level.push_back(take_leaf);
      leaf += take_leaf ? 1 : 0;
      pair += take_leaf ? 0 : 2;
    }
    below = std::move(list);
  }
  std::size_t chosen = 2 * symbols.size() - 2;
  for (std::size_t level = limit; level-- > 0;) {
    const auto leaves = static_cast<std::size_t>(
        std::count(is_symbol[level].begin(), is_symbol[level].begin() + static_cast<std::ptrdiff_t>(chosen), true));
    for (std::size_t i = 0; i < leaves; ++i) ++lengths[symbols[i].symbol];
    chosen = 2 * (chosen - leaves);
  }
  return lengths;
}

ECQ_INLINE code_lengths adjusted_code_lengths(histogram codes, unsigned limit) {
  const auto symbols = detail::symbols_by_count(codes);
  code_lengths lengths = huffman_code_lengths(codes);
  for (std::size_t rarest = 0; rarest < symbols.size() && *std::max_element(lengths.begin(), lengths.end()) > limit;
       ++rarest) {
    codes.counts[symbols[rarest].symbol] = 1;
    if (rarest > 0) lengths = huffman_code_lengths(codes);
  }
  return lengths;
}

ECQ_INLINE std::uint64_t coded_bits(const histogram& codes, const code_lengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t symbol = 0; symbol < 256; ++symbol) bits += codes.counts[symbol] * lengths[symbol];
  return bits;
}

}  // namespace ecq
