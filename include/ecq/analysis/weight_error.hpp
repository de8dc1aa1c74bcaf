#pragma once
/// \file
/// Error of reconstructed weights.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// Sums over pairs of weights w (original) and v (reconstructed). Measure the parts of a tensor or of a model
/// separately and add them up.
struct weight_error {
  std::uint64_t count = 0;       ///< pairs that are in the sums
  std::uint64_t non_finite = 0;  ///< pairs left out of them, because w or v is NaN or infinite
  double absolute_error = 0;     ///< sum of |v - w|
  double squared_error = 0;      ///< sum of (v - w)^2
  double absolute_weight = 0;    ///< sum of |w|
  double squared_weight = 0;     ///< sum of w^2
  double largest_error = 0;      ///< largest |v - w|

  /// Returns sum |v - w| / sum |w|, the distortion of EntQuant (section 3). It is 0 without error, and infinite if
  /// there is an error but all weights w are 0.
  double relative_l1() const noexcept {
    if (absolute_error == 0) return 0;
    return absolute_weight == 0 ? std::numeric_limits<double>::infinity() : absolute_error / absolute_weight;
  }

  /// Returns the signal to quantisation noise ratio in dB, 10 log10(sum w^2 / sum (v - w)^2). It is infinite without
  /// error, and minus infinity if there is an error but all weights w are 0.
  double sqnr_db() const noexcept {
    if (squared_error == 0) return std::numeric_limits<double>::infinity();
    return 10 * std::log10(squared_weight / squared_error);
  }

  weight_error& operator+=(const weight_error& other) noexcept {
    count += other.count;
    non_finite += other.non_finite;
    absolute_error += other.absolute_error;
    squared_error += other.squared_error;
    absolute_weight += other.absolute_weight;
    squared_weight += other.squared_weight;
    largest_error = (std::max)(largest_error, other.largest_error);
    return *this;
  }

  /// Adds pairs of weights; precondition: both spans have the same length.
  ECQ_EXACT_FLOAT void add(std::span<const float> original, std::span<const float> reconstructed) noexcept {
    ECQ_EXACT_FLOAT_BODY
    for (std::size_t index = 0; index < original.size(); ++index) {
      const double weight = static_cast<double>(original[index]);
      const double difference = static_cast<double>(reconstructed[index]) - weight;
      if (!std::isfinite(difference)) {
        ++non_finite;
        continue;
      }
      ++count;
      absolute_error += std::fabs(difference);
      squared_error += difference * difference;
      absolute_weight += std::fabs(weight);
      squared_weight += weight * weight;
      if (std::fabs(difference) > largest_error) largest_error = std::fabs(difference);
    }
  }

  friend bool operator==(const weight_error&, const weight_error&) = default;
};

/// Compares two matrices of the same shape and any element types; the result is the same for every thread count.
/// Errors: errc::invalid_argument if the shapes differ.
result<weight_error> measure_error(const cpu& backend, weights_view original, weights_view reconstructed);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/weight_error-inl.hpp"
#endif
