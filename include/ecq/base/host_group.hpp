#pragma once
/// \file
/// The thread_group of the host: one thread.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

/// How a thread of the host uses memory.
struct host_memory {
  /// Little-endian word number `index` from `from` on, aligned to its size.
  template <class Word>
  static ECQ_HOST_DEVICE Word load(const std::byte* from, std::uint32_t index = 0) {
    return load_le<Word>(from + sizeof(Word) * index);
  }
  template <class Word>
  static ECQ_HOST_DEVICE void store(std::byte* to, Word word) {
    store_le(to, word);
  }
  /// 16 bytes, aligned to 16.
  static ECQ_HOST_DEVICE void load_16_bytes(const std::byte* from, std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 4; ++i) words[i] = load_le<std::uint32_t>(from + 4 * i);
  }
  static ECQ_HOST_DEVICE void store_16_bytes(std::byte* to, const std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 4; ++i) store_le(to + 4 * i, words[i]);
  }
  /// The little-endian 64 bits at `from`, aligned to 2; up to 4 bytes beyond them may be read.
  static ECQ_HOST_DEVICE std::uint64_t load_even(const std::byte* from) { return load_le<std::uint64_t>(from); }
  /// Adds to what other threads may be adding to as well: in shared memory,
  static ECQ_HOST_DEVICE void increment(std::uint32_t& counter) { ++counter; }
  /// and in global memory.
  static ECQ_HOST_DEVICE void add(std::uint64_t& sum, std::uint64_t value) { sum += value; }
};
static_assert(thread_memory<host_memory>);

/// A group of one.
struct host_group {
  using memory = host_memory;

  static ECQ_HOST_DEVICE std::uint32_t rank() { return 0; }            ///< of this thread
  static ECQ_HOST_DEVICE constexpr std::uint32_t size() { return 1; }  ///< threads
  /// What each thread wrote before it, all read behind it.
  static ECQ_HOST_DEVICE void sync() {}
  /// Of the values of all threads.
  static ECQ_HOST_DEVICE std::uint64_t sum(std::uint64_t value) { return value; }
  /// Of the values of lower ranks; `all` becomes that of all threads.
  template <class Number>
  static ECQ_HOST_DEVICE Number exclusive_sum(Number value, Number& all) {
    all = value;
    return 0;
  }
  /// The number of the thread whose value is largest; the least number among equals.
  static ECQ_HOST_DEVICE std::uint32_t first_of_largest(std::uint64_t, std::uint32_t number) { return number; }
  /// The value of another thread.
  static ECQ_HOST_DEVICE std::uint64_t value_of(std::uint64_t value, std::uint32_t) { return value; }
};
static_assert(shuffling_group<host_group>);

}  // namespace ecq
