#pragma once
/// \file
/// Options of trellis-coded quantisation.

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ecq/base/result.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/stream/limits.hpp"

namespace ecq {

/// Quantiser to codes of Int8 that lie on a trellis. The stream codes their indices (stream_options::trellis), which
/// leaves less noise than rounding at the same rate. Each matrix has one step, in proportion to the root of the mean
/// square of its weights; rows with weights beyond the codes have a larger one. Every weight is quantised once, by the
/// cheapest path that Viterbi's algorithm finds; its cost counts the bits that indices take in a sample of the model.
/// Set exactly one of target_bits and lambda.
struct tcq {
  static constexpr std::string_view name = "tcq";
  unsigned state_bits = trellis{}.state_bits;  ///< log2 of the states, 2..5; more are better but slower
  /// log2 of the number of codes between two returns to state 0, 10..18. In a stream of shorter chunks, a chunk is one
  /// period.
  unsigned period_bits = trellis{}.period_bits;
  /// Bits per weight, everything counted, over all matrices together.
  std::optional<double> target_bits{};
  /// At least 0. For Gaussian weights, about the rate that entquant::lambda gives; 0: no weight lies beyond the codes.
  std::optional<double> lambda{};
  /// Least length of rows with scales of their own. Matrices with shorter rows have one scale, since one for each row
  /// would cost more than it brings.
  std::size_t shortest_scaled_row = 256;

  constexpr bool has_scaled_rows(std::size_t columns) const noexcept { return columns >= shortest_scaled_row; }

  /// Returns the layout of a matrix's scales. The scales make rows, or the matrix, unbiased: <w,v> = <w,w> for weights
  /// w that become v.
  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return has_scaled_rows(columns) ? per_channel{}.layout(rows, columns) : per_tensor{}.layout(rows, columns);
  }

  /// Fails with errc::invalid_argument for options out of range, and unless exactly one of target and lambda is set.
  result<void> check() const {
    if (state_bits < trellis::min_state_bits || state_bits > trellis::max_state_bits) {
      return error(errc::invalid_argument, "tcq: 2^", state_bits, " states, not 4 to 32");
    }
    if (period_bits < min_chunk_bits || period_bits > max_chunk_bits) {
      return error(errc::invalid_argument, "tcq: a period of 2^", period_bits, " codes, not 2^", min_chunk_bits,
                   " to 2^", max_chunk_bits);
    }
    if (target_bits.has_value() == lambda.has_value()) {
      return error(errc::invalid_argument, target_bits ? "tcq: target_bits and lambda are both set"
                                                       : "tcq: neither target_bits nor lambda is set");
    }
    if (lambda && !(*lambda >= 0 && std::isfinite(*lambda))) {
      return error(errc::invalid_argument, "tcq: lambda is ", *lambda, ", not a finite number of at least 0");
    }
    return {};
  }
};

}  // namespace ecq
