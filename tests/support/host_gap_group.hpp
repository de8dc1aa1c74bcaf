#pragma once
/// \file
/// The gap_group of the host. In every test it runs, bit for bit, the code that devices run with
/// cuda/device_gap_group.cuh.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_group.hpp"
#include "support/host_steps.hpp"
#include "support/host_warp.hpp"

namespace ecq {

class host_gap_group : public host_steps<128> {
 public:
  using warp = host_warp;

  explicit host_gap_group(std::size_t shared_words) : shared_(shared_words) {}

  /// Returns the words that all threads share.
  std::uint32_t* shared() { return shared_.data(); }

  /// Calls `body(warp)` with the number of each warp.
  template <class Body>
  void each_warp(Body&& body) {
    for (std::uint32_t number = 0; number < size() / lane_count; ++number) body(number);
  }

  /// Waits for all threads, and returns whether any of them has a flag that is not 0.
  bool any(own<std::uint32_t>& flags) {
    std::uint32_t all = 0;
    for (const std::uint32_t flag : flags) all |= flag;
    return all != 0;
  }
  /// Like any(); also replaces each count by the sum of the counts before it, and sets `sum` to the sum of all counts.
  bool exclusive_sum_and_any(own<std::uint32_t>& counts, std::uint32_t& sum, own<std::uint32_t>& flags) {
    sum = 0;
    for (std::uint32_t& count : counts) {
      sum += count;
      count = sum - count;
    }
    return any(flags);
  }

  /// Computes *word |= bits; other threads may set bits of the word at the same time.
  static void set_bits(std::uint32_t* word, std::uint32_t bits) { *word |= bits; }

  /// Returns the number of bytes from the last multiple of 4 to `from`, or 0 if words may lie anywhere.
  static std::uint32_t misalignment(const std::byte*) { return 0; }

  /// Loads words 2 * index and 2 * index + 1 of a table.
  static void load_pair(const std::uint32_t* table, std::uint32_t index, std::uint32_t& even, std::uint32_t& odd) {
    even = table[std::size_t{2} * index];
    odd = table[std::size_t{2} * index + 1];
  }

  /// Return the low 32 bits of (high:low) >> bits, and the high 32 bits of (high:low) << bits, for bits modulo 32.
  static std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> (bits % 32));
  }
  static std::uint32_t funnel_left(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return static_cast<std::uint32_t>((((std::uint64_t{high} << 32) | low) << (bits % 32)) >> 32);
  }
  static std::uint32_t count_bits(std::uint32_t x) { return static_cast<std::uint32_t>(std::popcount(x)); }
  /// Returns the number of the lowest bit of x that is set; x is not 0.
  static std::uint32_t lowest_bit(std::uint32_t x) { return static_cast<std::uint32_t>(std::countr_zero(x)); }

 private:
  std::vector<std::uint32_t> shared_;
};
static_assert(gap_group<host_gap_group>);

}  // namespace ecq
