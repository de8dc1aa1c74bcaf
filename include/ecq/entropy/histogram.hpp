#pragma once
/// \file
/// Histograms, which count how often each of the 256 codes occurs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// Counts of the byte values 0..255.
struct histogram {
  std::array<std::uint64_t, 256> counts{};

  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) sum += count;
    return sum;
  }

  /// Returns the number of different values that occur.
  unsigned distinct() const noexcept {
    unsigned present = 0;
    for (const std::uint64_t count : counts) present += count != 0 ? 1U : 0U;
    return present;
  }

  /// Adds the counts of `codes`. The result does not depend on `isa`.
  void add(std::span<const std::uint8_t> codes, instruction_set isa = instruction_set::automatic) noexcept;

  histogram& operator+=(const histogram& other) noexcept {
    for (std::size_t value = 0; value < 256; ++value) counts[value] += other.counts[value];
    return *this;
  }

  bool operator==(const histogram&) const = default;
};

/// Returns the histogram of `codes`, counted on all threads of `backend`.
result<histogram> count_codes(const cpu& backend, std::span<const std::uint8_t> codes);

/// Returns the histogram of the exponent fields of weights of a floating-point `format`. `elements` are the weights'
/// bits in the machine's byte order, at any address.
result<histogram> count_exponents(const cpu& backend, dtype format, std::span<const std::byte> elements);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/histogram-inl.hpp"
#endif
