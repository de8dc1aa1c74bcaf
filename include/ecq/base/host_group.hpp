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

/// The thread_memory of the host: memory accesses of one thread.
struct host_memory {
  /// Loads the little-endian word number `index` of an array at `from`, which is aligned to the size of a word.
  template <class Word>
  static ECQ_HOST_DEVICE Word load(const std::byte* from, std::uint32_t index = 0) {
    return load_le<Word>(from + sizeof(Word) * index);
  }
  template <class Word>
  static ECQ_HOST_DEVICE void store(std::byte* to, Word word) {
    store_le(to, word);
  }
  /// Loads 16 bytes from `from`, which is aligned to 16 bytes.
  static ECQ_HOST_DEVICE void load_16_bytes(const std::byte* from, std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 4; ++i) words[i] = load_le<std::uint32_t>(from + 4 * i);
  }
  static ECQ_HOST_DEVICE void store_16_bytes(std::byte* to, const std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 4; ++i) store_le(to + 4 * i, words[i]);
  }
  /// Hints that the byte at `from` will be loaded soon; has no effect on the host.
  static ECQ_HOST_DEVICE void prefetch(const std::byte*) {}
  /// Adds 1 to a counter in shared memory, to which other threads may be adding too.
  static ECQ_HOST_DEVICE void increment(std::uint32_t& counter) { ++counter; }
  /// Adds `value` to a sum in global memory, to which other threads may be adding too.
  static ECQ_HOST_DEVICE void add(std::uint64_t& sum, std::uint64_t value) { sum += value; }
};
static_assert(thread_memory<host_memory>);

/// A group of one thread.
struct host_group {
  using memory = host_memory;

  static ECQ_HOST_DEVICE std::uint32_t rank() { return 0; }            ///< number of this thread
  static ECQ_HOST_DEVICE constexpr std::uint32_t size() { return 1; }  ///< number of threads
  /// Waits for all threads; after it, all threads read what each of them wrote before it.
  static ECQ_HOST_DEVICE void sync() {}
  /// Returns the sum of the values of all threads.
  static ECQ_HOST_DEVICE std::uint64_t sum(std::uint64_t value) { return value; }
  /// Returns the sum of the values of lower ranks, and sets `all` to the sum of all values.
  template <class Number>
  static ECQ_HOST_DEVICE Number exclusive_sum(Number value, Number& all) {
    all = value;
    return 0;
  }
  /// Returns the number that comes with the largest value; among equal values, the smallest number.
  static ECQ_HOST_DEVICE std::uint32_t first_of_largest(std::uint64_t, std::uint32_t number) { return number; }
  /// Returns the value of another thread.
  static ECQ_HOST_DEVICE std::uint64_t value_of(std::uint64_t value, std::uint32_t) { return value; }
  /// Returns the value of the thread that is the given number of ranks further on, if there is one.
  static ECQ_HOST_DEVICE std::uint64_t value_behind(std::uint64_t value, std::uint32_t) { return value; }
};
static_assert(shuffling_group<host_group>);

}  // namespace ecq
