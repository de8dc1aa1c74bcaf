#pragma once
/// \file
/// The block policy of quantize/row_block.hpp on the host: a step is taken by all threads, one after another.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/quantize/balanced_scale.hpp"

namespace ecq {

/// `Threads` threads. What they report is kept: of the kind that comes first as errc orders them, the least number.
template <unsigned Threads>
struct host_row_block {
  static constexpr unsigned threads = Threads;

  /// A value a thread.
  template <class Value>
  using own = std::array<Value, Threads>;

  errc reported = errc::ok;
  std::uint64_t number = 0;

  template <class Value>
  static Value& at(own<Value>& values, std::uint32_t thread) {
    return values[thread];
  }
  template <class Body>
  static void each_thread(Body&& body) {
    for (std::uint32_t thread = 0; thread < Threads; ++thread) body(thread);
  }

  /// All threads wait for each other: what one wrote, others see afterwards.
  void meet() const {}

  /// The largest of the threads' values.
  std::uint32_t largest(const own<std::uint32_t>& values) const {
    std::uint32_t largest = 0;
    for (const std::uint32_t value : values) largest = value > largest ? value : largest;
    return largest;
  }
  /// What `body()` returns, called by one thread, for all.
  template <class Body>
  auto lead(Body&& body) const {
    return body();
  }
  /// lead(body(sum)), of the threads' sums, added up by detail::fold.
  template <class Body>
  auto decide(own<detail::group_sums> sums, Body&& body) const {
    return body(detail::fold<Threads>(sums.data()));
  }

  void report(errc code, std::uint64_t where) {
    if (reported != errc::ok && (reported < code || (reported == code && number <= where))) return;
    reported = code;
    number = where;
  }

  /// Adds to a count that others add to.
  template <class Count>
  static void count(Count& all, Count some) {
    all += some;
  }

  /// Rounded once, subnormal numbers included, whatever compilers are told.
  static float multiply(float a, float b) { return a * b; }
  static double multiply(double a, double b) { return a * b; }
  static float divide(float a, float b) { return a / b; }
  static std::uint32_t bits_of_fp16(std::uint32_t code) {
    return std::bit_cast<std::uint32_t>(fp16::decode(static_cast<std::uint16_t>(code)));
  }

  /// Little-endian, aligned to its size.
  template <class Word>
  static Word load_one(const std::byte* from) {
    return load_le<Word>(from);
  }
  static void load_16_bytes(const std::byte* from, std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 4; ++i) words[i] = load_le<std::uint32_t>(from + 4 * i);
  }
  static void load_four(const float* from, float (&four)[4]) { std::memcpy(four, from, sizeof four); }
  static void store_16_bytes(std::uint8_t* to, const std::uint32_t (&words)[4]) {
    for (std::size_t i = 0; i < 16; ++i) to[i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
  }
};

}  // namespace ecq
