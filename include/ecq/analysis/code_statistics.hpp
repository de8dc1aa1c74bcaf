#pragma once
/// \file
/// Statistics of a set of codes: the least that it costs, and how much of its alphabet it uses.

#include <cmath>
#include <cstdint>
#include <span>

#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// Statistics of codes as an entropy coder sees them.
struct code_statistics {
  std::uint64_t count = 0;     ///< number of codes
  double entropy = 0;          ///< bits per code, which no coder with one static table can beat; 0 without codes
  unsigned unique_values = 0;  ///< number of different codes that occur, at most 256
  double sparsity = 0;         ///< share of the zero code, 0 ... 1; 0 without codes
};

/// Returns the Shannon entropy of `counts`, in bits per symbol.
inline double entropy_of(const histogram& counts) noexcept {
  const auto total = static_cast<double>(counts.total());
  double bits = 0;
  for (const std::uint64_t count : counts.counts) {
    if (count != 0) bits += static_cast<double>(count) * std::log2(total / static_cast<double>(count));
  }
  return total == 0 ? 0 : bits / total;
}

/// Returns the statistics of the codes that `counts` counts. `zero_code` is the code whose share is the sparsity; every
/// number format here encodes 0 as code 0.
inline code_statistics analyse_codes(const histogram& counts, std::uint8_t zero_code = 0) noexcept {
  code_statistics statistics;
  statistics.count = counts.total();
  statistics.entropy = entropy_of(counts);
  statistics.unique_values = counts.distinct();
  if (statistics.count != 0) {
    statistics.sparsity = static_cast<double>(counts.counts[zero_code]) / static_cast<double>(statistics.count);
  }
  return statistics;
}

/// Returns the statistics of `codes`; `zero_code` is the code whose share is the sparsity.
inline code_statistics analyse_codes(std::span<const std::uint8_t> codes, std::uint8_t zero_code = 0) noexcept {
  histogram counts;
  counts.add(codes);
  return analyse_codes(counts, zero_code);
}

}  // namespace ecq
