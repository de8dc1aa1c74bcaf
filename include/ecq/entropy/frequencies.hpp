#pragma once
/// \file
/// Integer frequencies that approximate a histogram with the least possible loss, the same on every machine.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// Symbols that occur, ascending, and their frequencies (1 .. 2^scale_bits), which sum to 2^scale_bits.
struct frequency_table {
  unsigned scale_bits = 0;
  unsigned count = 0;  ///< 1 .. 256
  std::array<std::uint8_t, 256> symbols{};
  std::array<std::uint32_t, 256> frequencies{};

  bool operator==(const frequency_table&) const = default;
};

/// log2(value) in 2^-32, rounded down to within 4 of the last place; integer arithmetic alone. value >= 1.
constexpr std::uint64_t log2_fixed(std::uint32_t value) noexcept {
  const unsigned whole = static_cast<unsigned>(std::bit_width(value)) - 1;
  std::uint64_t mantissa = std::uint64_t{value} << (31 - whole);  // in [1, 2), 31 fraction bits
  std::uint64_t fraction = 0;
  for (int i = 0; i < 32; ++i) {
    mantissa = (mantissa * mantissa) >> 31;
    const std::uint64_t bit = mantissa >> 32;
    fraction = (fraction << 1) | bit;
    mantissa >>= bit;
  }
  return (std::uint64_t{whole} << 32) | fraction;
}

/// Frequencies that minimise the cross entropy -sum(count * log2(frequency / 2^scale_bits)) with every symbol that
/// occurs at 1 or more. At least one does; 8 <= scale_bits <= 16.
///
/// The cost is convex in each frequency, so an allocation from which no single unit can be moved with profit is
/// optimal: start near the proportional one and move units, always where it gains most or hurts least.
inline frequency_table normalize_frequencies(const histogram& codes, unsigned scale_bits) {
  frequency_table table;
  table.scale_bits = scale_bits;
  // 31 bits of counts, so that count * log2 fits 64 bits.
  const unsigned width = static_cast<unsigned>(std::bit_width(codes.total()));
  const unsigned shift = width > 31 ? width - 31 : 0;
  std::array<std::uint64_t, 256> weight{};
  std::uint64_t total = 0;
  for (std::size_t symbol = 0; symbol < 256; ++symbol) {
    if (codes.counts[symbol] == 0) continue;
    table.symbols[table.count] = static_cast<std::uint8_t>(symbol);
    weight[table.count] = (std::max)(codes.counts[symbol] >> shift, std::uint64_t{1});
    total += weight[table.count++];
  }
  std::array<std::uint64_t, 256> gain{};  // of one unit more
  std::array<std::uint64_t, 256> loss{};  // of one unit less
  const auto price = [&](std::size_t i) {
    const std::uint32_t f = table.frequencies[i];
    gain[i] = weight[i] * (log2_fixed(f + 1) - log2_fixed(f));
    loss[i] = f > 1 ? weight[i] * (log2_fixed(f) - log2_fixed(f - 1)) : ~std::uint64_t{0};
  };
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < table.count; ++i) {
    const std::uint64_t share = (weight[i] << scale_bits) / total;
    table.frequencies[i] = static_cast<std::uint32_t>((std::max)(share, std::uint64_t{1}));
    sum += table.frequencies[i];
    price(i);
  }
  const auto most_gained = [&] { return std::max_element(gain.begin(), gain.begin() + table.count) - gain.begin(); };
  const auto least_lost = [&] { return std::min_element(loss.begin(), loss.begin() + table.count) - loss.begin(); };
  const std::uint64_t wanted = std::uint64_t{1} << scale_bits;
  for (;;) {
    const auto up = static_cast<std::size_t>(most_gained());
    const auto down = static_cast<std::size_t>(least_lost());
    if (sum == wanted && (up == down || gain[up] <= loss[down])) return table;
    if (sum <= wanted) {
      ++table.frequencies[up];
      ++sum;
      price(up);
    }
    if (sum > wanted) {
      const auto victim = static_cast<std::size_t>(least_lost());
      --table.frequencies[victim];
      --sum;
      price(victim);
    }
  }
}

/// Information of `codes` coded with `table`, in bits, rounded up: sum of count * (scale_bits - log2(frequency)).
/// Every code that occurs is in the table.
inline std::uint64_t coded_bits(const histogram& codes, const frequency_table& table) {
  std::uint64_t sum = 0;  // in 2^-16 bit: below 2^64 for 2^43 codes of at most 16 bits
  for (std::size_t i = 0; i < table.count; ++i) {
    const std::uint64_t each = (std::uint64_t{table.scale_bits} << 32) - log2_fixed(table.frequencies[i]);
    sum += codes.counts[table.symbols[i]] * (each >> 16);
  }
  return (sum >> 16) + 1;
}

}  // namespace ecq
