#pragma once
/// \file
/// A block of threads on the host: a step is taken by all threads, one after another, before the next step begins.
/// Bodies written over a block policy run here in every test, bit for bit, and on a device with
/// cuda/device_thread_block.cuh.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "support/host_warp.hpp"

namespace ecq {

/// The block policy on the host. A value that each thread has of its own is an `of_each`.
class host_block {
 public:
  static constexpr std::uint32_t threads = 128;

  using warp = host_warp;

  template <class Type>
  using of_each = std::array<Type, threads>;

  template <class Type>
  static Type& at(of_each<Type>& values, std::uint32_t thread) {
    return values[thread];
  }

  explicit host_block(std::size_t shared_words) : shared_(shared_words) {}

  /// Words that all threads share.
  std::uint32_t* shared() { return shared_.data(); }

  /// Calls `step(thread)` for each thread.
  template <class Step>
  void each_thread(Step&& step) {
    for (std::uint32_t thread = 0; thread < threads; ++thread) step(thread);
  }

  /// Calls `step(warp)` for each warp.
  template <class Step>
  void each_warp(Step&& step) {
    for (std::uint32_t number = 0; number < threads / lane_count; ++number) step(number);
  }

  /// Waits for all threads.
  void meet() {}
  /// Waits for all threads, and says whether any has a flag that is not 0.
  bool any(of_each<std::uint32_t>& flags) {
    std::uint32_t all = 0;
    for (const std::uint32_t flag : flags) all |= flag;
    return all != 0;
  }
  /// As any(); replaces each count by the sum of those before it, and `sum` by that of all.
  bool exclusive_sum(of_each<std::uint32_t>& counts, std::uint32_t& sum, of_each<std::uint32_t>& flags) {
    sum = 0;
    for (std::uint32_t& count : counts) {
      const std::uint32_t own = count;
      count = sum;
      sum += own;
    }
    return any(flags);
  }

  /// *word |= bits, whoever else does so at once.
  static void set_bits(std::uint32_t* word, std::uint32_t bits) { *word |= bits; }

  /// Half-word or word number `index` from `from` on, aligned to 2 or 4 bytes.
  static std::uint32_t load_half(const std::byte* from, std::uint32_t index) {
    return load_le<std::uint16_t>(from + std::size_t{2} * index);
  }
  static std::uint32_t load_word(const std::byte* from, std::uint32_t index) {
    return load_le<std::uint32_t>(from + std::size_t{4} * index);
  }
  /// Bytes from the last multiple of 4 to `from`.
  static std::uint32_t misalignment(const std::byte*) { return 0; }

  /// Words 2 * index and 2 * index + 1 of a table.
  static void load_pair(const std::uint32_t* table, std::uint32_t index, std::uint32_t& even, std::uint32_t& odd) {
    even = table[std::size_t{2} * index];
    odd = table[std::size_t{2} * index + 1];
  }

  /// The low 32 bits of (high:low) >> bits, and the high ones of (high:low) << bits, bits modulo 32.
  static std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> (bits % 32));
  }
  static std::uint32_t funnel_left(std::uint32_t low, std::uint32_t high, std::uint32_t bits) {
    return static_cast<std::uint32_t>((((std::uint64_t{high} << 32) | low) << (bits % 32)) >> 32);
  }
  static std::uint32_t count_bits(std::uint32_t x) { return static_cast<std::uint32_t>(std::popcount(x)); }
  /// Number of the lowest bit of x, which is not 0.
  static std::uint32_t lowest_bit(std::uint32_t x) { return static_cast<std::uint32_t>(std::countr_zero(x)); }

 private:
  std::vector<std::uint32_t> shared_;
};

}  // namespace ecq
