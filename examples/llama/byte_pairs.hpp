#pragma once
/// \file
/// Byte-pair encoding of one piece of text.

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace llama {

/// Merges of neighbouring tokens by rank; merges of lower rank come first.
class byte_pairs {
 public:
  /// Adds the merge of the next rank: `left` and `right` become `merged`. A pair that is added again takes its last
  /// rank.
  void add(std::uint32_t left, std::uint32_t right, std::uint32_t merged);

  std::size_t size() const noexcept { return merges_.size(); }

  /// Appends the encoding of `tokens` to `out`: as long as two neighbours can merge, those of the lowest rank do, the
  /// leftmost first. Takes time n log n.
  void encode(std::span<const std::uint32_t> tokens, std::vector<std::uint32_t>& out) const;

 private:
  struct merge {
    std::uint32_t rank, token;
  };

  std::unordered_map<std::uint64_t, merge> merges_;
  std::uint32_t next_rank_ = 0;
};

}  // namespace llama
