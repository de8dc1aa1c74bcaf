#pragma once
/// \file
/// Sums in FP64 that are fast and still the same with every compiler and on every machine.

#include <cstddef>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// A sum in eight parts, whose additions do not wait for each other and fit vector registers. Term number i goes to
/// part i % 8; total() adds the second half of the parts to the first until one is left.
struct lane_sum {
  static constexpr std::size_t parts = 8;

  double part[parts] = {};

  ECQ_EXACT_FLOAT double total() const noexcept {
    ECQ_EXACT_FLOAT_BODY
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
  }
};

}  // namespace ecq::detail
