#pragma once
/// \file
/// RTN: round to nearest on an AbsMax grid.

#include <string_view>

#include "ecq/quantize/baseline.hpp"

namespace ecq {

/// Quantiser to symmetric integers of `bits` bits with one BF16 scale per row, max|w| / (2^(bits-1) - 1): bits + 16 /
/// columns bits per weight. Codes are two's complement. Rounded weights are q * scale with the stored scale.
struct rtn {
  static constexpr std::string_view name = "rtn";

  int bits = 4;  ///< 2 ... 8

  result<baseline_result> apply(const cpu& backend, weights_view weights) const;
};

static_assert(baseline<rtn>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/rtn-inl.hpp"
#endif
