#pragma once
/// \file
/// Definition of the estimators of the exponents' law.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numbers>

#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/analysis/exponent_law.hpp"
#include "ecq/base/config.hpp"

namespace ecq {

ECQ_INLINE two_sided_geometric fit_two_sided_geometric(const exponent_counts& counts) noexcept {
  const std::uint64_t total = counts.weights() - counts.zeros() - counts.non_finite();
  if (total == 0) return {std::numeric_limits<double>::quiet_NaN(), 0};
  two_sided_geometric law;
  law.centre = -126;
  for (std::uint64_t upto = counts.at(law.centre); upto < total - upto;) upto += counts.at(++law.centre);
  double distance = 0;
  for (int exponent = -126; exponent <= 127; ++exponent) {
    distance += static_cast<double>(counts.at(exponent)) * std::abs(exponent - law.centre);
  }
  distance /= static_cast<double>(total);
  law.alpha = distance == 0 ? std::numeric_limits<double>::infinity()
                            : -std::log2(distance / (1 + std::sqrt(1 + distance * distance)));
  return law;
}

ECQ_INLINE double fit_stable_alpha(const exponent_counts& counts) noexcept {
  double total = 0;
  double sum = 0;
  for (int exponent = -126; exponent <= 127; ++exponent) {
    total += static_cast<double>(counts.at(exponent));
    sum += static_cast<double>(counts.at(exponent)) * exponent;
  }
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum / total;
  double squares = 0;
  for (int exponent = -126; exponent <= 127; ++exponent) {
    squares += static_cast<double>(counts.at(exponent)) * (exponent - mean) * (exponent - mean);
  }
  constexpr double pi = std::numbers::pi, ln2 = std::numbers::ln2;
  const double variance = (squares / total - 1.0 / 12) * ln2 * ln2;
  const double inverse_square = 6 * variance / (pi * pi) - 0.5;
  return inverse_square <= 0.25 ? 2.0 : 1 / std::sqrt(inverse_square);
}

}  // namespace ecq
