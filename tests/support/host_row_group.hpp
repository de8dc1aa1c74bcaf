#pragma once
/// \file
/// The row_group of the host.

#include <bit>
#include <cstdint>
#include <cstring>

#include "ecq/base/result.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/row_group.hpp"
#include "support/host_steps.hpp"

namespace ecq {

/// Group of `Threads` threads. Of all that they report, it keeps the error that comes first in errc, with its smallest
/// number.
template <unsigned Threads>
struct host_row_group : host_steps<Threads> {
  template <class Value>
  using own = typename host_steps<Threads>::template own<Value>;

  errc reported = errc::ok;
  std::uint64_t number = 0;

  /// Returns the largest of the threads' values.
  std::uint32_t largest(const own<std::uint32_t>& values) const {
    std::uint32_t largest = 0;
    for (const std::uint32_t value : values) largest = value > largest ? value : largest;
    return largest;
  }
  /// Calls `body()` in one thread, and returns its result to all.
  template <class Body>
  auto lead(Body&& body) const {
    return body();
  }
  /// Returns lead(body(sum)), where `sum` is the threads' sums added up by detail::fold.
  template <class Body>
  auto decide(own<detail::group_sums> sums, Body&& body) const {
    return body(detail::fold<Threads>(sums.data()));
  }

  void report(errc code, std::uint64_t where) {
    if (reported != errc::ok && (reported < code || (reported == code && number <= where))) return;
    reported = code;
    number = where;
  }

  /// Products and quotients are rounded once, subnormal numbers included, whatever the compiler's options.
  static float multiply(float a, float b) { return a * b; }
  static double multiply(double a, double b) { return a * b; }
  static float divide(float a, float b) { return a / b; }
  static std::uint32_t bits_of_fp16(std::uint32_t code) {
    return std::bit_cast<std::uint32_t>(fp16::decode(static_cast<std::uint16_t>(code)));
  }

  static void load_four(const float* from, float (&four)[4]) { std::memcpy(four, from, sizeof four); }
};
static_assert(row_group<host_row_group<32>> && row_group<host_row_group<256>>);

}  // namespace ecq
