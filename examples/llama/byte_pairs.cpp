// Byte-pair encoding by a list of tokens and a queue of the neighbours that can merge.

#include "byte_pairs.hpp"

#include <functional>
#include <limits>
#include <queue>
#include <tuple>

namespace llama {

namespace {

constexpr std::size_t none = (std::numeric_limits<std::size_t>::max)();
constexpr std::uint32_t gone = (std::numeric_limits<std::uint32_t>::max)();

struct link {
  std::uint32_t token;
  std::size_t previous, next;
};
/// Rank, place of the left token, both tokens, and the token that they become.
using candidate = std::tuple<std::uint32_t, std::size_t, std::uint32_t, std::uint32_t, std::uint32_t>;

std::uint64_t key(std::uint32_t left, std::uint32_t right) noexcept { return std::uint64_t{left} << 32U | right; }

}  // namespace

void byte_pairs::add(std::uint32_t left, std::uint32_t right, std::uint32_t merged) {
  merges_.insert_or_assign(key(left, right), merge{next_rank_++, merged});
}

void byte_pairs::encode(std::span<const std::uint32_t> tokens, std::vector<std::uint32_t>& out) const {
  std::vector<link> chain;
  chain.reserve(tokens.size());
  for (std::size_t at = 0; at < tokens.size(); ++at) chain.push_back({tokens[at], at - 1, at + 1});
  if (!chain.empty()) chain.back().next = none;
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> candidates;
  const auto consider = [&](std::size_t left) {
    if (left == none || chain[left].next == none) return;
    const std::uint32_t first = chain[left].token;
    const std::uint32_t second = chain[chain[left].next].token;
    const auto found = merges_.find(key(first, second));
    if (found != merges_.end()) candidates.emplace(found->second.rank, left, first, second, found->second.token);
  };
  for (std::size_t at = 0; at < chain.size(); ++at) consider(at);
  while (!candidates.empty()) {
    const auto [rank, left, first, second, merged] = candidates.top();
    candidates.pop();
    const std::size_t right = chain[left].next;
    // Other merges may have taken either neighbour since.
    if (chain[left].token != first || right == none || chain[right].token != second) continue;
    chain[left].token = merged;
    chain[left].next = chain[right].next;
    if (chain[right].next != none) chain[chain[right].next].previous = left;
    chain[right].token = gone;
    consider(chain[left].previous);
    consider(left);
  }
  for (const link& one : chain) {
    if (one.token != gone) out.push_back(one.token);
  }
}

}  // namespace llama
