#pragma once
/// \file
/// Entries that vector encoders of rANS look up for a code.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/rans_division.hpp"

namespace ecq::detail {

/// Two adjacent words for each code: a number a little below 1 / frequency (FP32), and frequency | start << 16. `start`
/// < 2^16 is the symbol's first slot, or the place where its slots begin in a list.
struct encode_entries {
  void add(std::size_t code, std::uint32_t frequency, std::uint32_t start) {
    words[2 * code] = std::bit_cast<std::uint32_t>(float_division::inverse(frequency));
    words[2 * code + 1] = frequency | (start << 16);
  }

  std::uint32_t words[512] = {};
};

}  // namespace ecq::detail
