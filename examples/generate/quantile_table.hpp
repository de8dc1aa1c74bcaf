#pragma once
/// \file
/// Normal and Student-t random numbers from 64 random bits, by a table of the inverse distribution function. They are
/// fast to compute, and the same on every machine, because they need only + - * / and the square root.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq_examples {

/// Returns e^x for |x| < 700 to about 1e-15, with the same bits everywhere (std::exp differs between C libraries).
ECQ_EXACT_FLOAT inline double exact_exp(double exponent) noexcept {
  ECQ_EXACT_FLOAT_BODY
  constexpr double ln2 = 0.69314718055994530942;
  const double octaves = std::floor(exponent / ln2 + 0.5);
  const double rest = exponent - octaves * ln2;
  double sum = 1;
  for (int term = 18; term >= 1; --term) sum = 1 + sum * rest / term;
  return std::ldexp(sum, static_cast<int>(octaves));
}

/// Table of quantiles of a symmetric distribution at upper-tail probabilities 2^-(octave + 2) * (1 + step / 64), for 32
/// octaves of 64 steps, and at 1/2, from the outermost to the middle. Between entries, quantiles are interpolated
/// linearly.
struct quantile_table {
  static constexpr std::size_t octaves = 32;
  static constexpr std::size_t steps = 64;

  std::array<float, octaves * steps + 1> values{};

  /// Returns a random number made of 64 random bits. The lowest 16 bits matter only for the outermost 1e-5.
  ECQ_EXACT_FLOAT float operator()(std::uint64_t random) const noexcept {
    ECQ_EXACT_FLOAT_BODY
    const std::uint64_t probability = (random << 1) | (std::uint64_t{1} << 32);  // the last octave covers all beyond it
    const auto octave = static_cast<std::size_t>(std::countl_zero(probability));
    const std::uint64_t normalised = probability << octave;
    const std::size_t cell =
        (octaves - 1 - octave) * steps + (static_cast<std::size_t>(normalised >> 57) & (steps - 1));
    const float part = static_cast<float>(static_cast<std::uint32_t>(normalised >> 33) & 0xffffffU) * 0x1p-24F;
    const float quantile = values[cell] + part * (values[cell + 1] - values[cell]);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(quantile) |
                                (static_cast<std::uint32_t>(random >> 63) << 31));
  }
};

namespace detail {

/// Returns dz/dp of the upper-tail quantile of the normal distribution: -1 / density.
ECQ_EXACT_FLOAT inline double quantile_slope(double quantile) noexcept {
  ECQ_EXACT_FLOAT_BODY
  constexpr double sqrt_2_pi = 2.50662827463100050242;
  return -sqrt_2_pi * exact_exp(quantile * quantile / 2);
}

/// Integrates dz/dp by the classical Runge-Kutta method, from the outermost quantile inwards. In this direction, errors
/// die out.
ECQ_EXACT_FLOAT inline std::array<double, quantile_table::octaves * quantile_table::steps + 1>
gaussian_quantile_values() noexcept {
  ECQ_EXACT_FLOAT_BODY
  std::array<double, quantile_table::octaves * quantile_table::steps + 1> values{};
  double quantile = 6.337957754553789;  // upper tail 2^-33
  values[0] = quantile;
  for (std::size_t cell = 0; cell + 2 < values.size(); ++cell) {
    const auto octave = static_cast<int>(quantile_table::octaves - 1 - cell / quantile_table::steps);
    const double step = std::ldexp(1.0, -(octave + 2)) / static_cast<double>(quantile_table::steps);
    const double first = quantile_slope(quantile);
    const double second = quantile_slope(quantile + step / 2 * first);
    const double third = quantile_slope(quantile + step / 2 * second);
    const double fourth = quantile_slope(quantile + step * third);
    quantile += step / 6 * (first + 2 * second + 2 * third + fourth);
    values[cell + 1] = quantile;
  }
  return values;  // the last entry is the quantile of 1/2, which is 0
}

/// Returns the quantile of Student's t of unit variance, computed from the normal quantile `z` (Abramowitz and Stegun,
/// 26.7.5). Precondition: degrees > 2.
ECQ_EXACT_FLOAT inline double student_t_quantile(double z, double degrees) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const double z2 = z * z;
  const double first = (z2 + 1) / 4;
  const double second = ((5 * z2 + 16) * z2 + 3) / 96;
  const double third = (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  const double t = z * (1 + (first + (second + third / degrees) / degrees) / degrees);
  return t * std::sqrt((degrees - 2) / degrees);
}

inline quantile_table make_quantiles(unsigned degrees) noexcept {
  quantile_table table;
  const auto gaussian = gaussian_quantile_values();
  for (std::size_t cell = 0; cell < gaussian.size(); ++cell) {
    table.values[cell] = static_cast<float>(
        degrees == 0 ? gaussian[cell] : student_t_quantile(gaussian[cell], static_cast<double>(degrees)));
  }
  return table;
}

}  // namespace detail

inline const quantile_table& gaussian_quantiles() {
  static const quantile_table table = detail::make_quantiles(0);
  return table;
}

/// Returns the table of Student's t of unit variance for 0 (Gaussian), 6 or 8 degrees of freedom; for every other
/// number, that of 12.
inline const quantile_table& student_t_quantiles(unsigned degrees_of_freedom) {
  static const quantile_table t6 = detail::make_quantiles(6);
  static const quantile_table t8 = detail::make_quantiles(8);
  static const quantile_table t12 = detail::make_quantiles(12);
  switch (degrees_of_freedom) {
    case 0: return gaussian_quantiles();
    case 6: return t6;
    case 8: return t8;
    default: return t12;
  }
}

}  // namespace ecq_examples
