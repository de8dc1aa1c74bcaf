#pragma once
/// \file
/// Synthetic weights on which the tests' figures were measured: rows x columns, row-major, rounded to BF16.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "ecq/format/bf16.hpp"

namespace ecq_test {

/// Standard normal and uniform numbers from std::mt19937_64. The standard fixes the output of the engine, but leaves
/// its distributions to each library.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : engine_(seed) {}

  /// Returns a number in (0, 1).
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }

  /// Returns a standard normal number (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// Returns a number of Student's t distribution with 4 degrees of freedom. -2 ln(u v) is chi-squared of 4.
  double student_t4() {
    const double chi_squared = -2 * (std::log(uniform()) + std::log(uniform()));
    return normal() / std::sqrt(chi_squared / 4);
  }

 private:
  std::mt19937_64 engine_;
};

/// Returns weights from N(0, sigma^2).
inline std::vector<float> gaussian(std::size_t rows, std::size_t columns, std::uint64_t seed = 1, float sigma = 0.02F) {
  random_numbers random(seed);
  std::vector<float> weights(rows * columns);
  for (float& weight : weights) weight = ecq::bf16(static_cast<float>(sigma * random.normal()));
  return weights;
}

/// Returns weights from sigma times Student's t with 4 degrees of freedom.
inline std::vector<float> student_t4(std::size_t rows, std::size_t columns, std::uint64_t seed = 1,
                                     float sigma = 0.02F) {
  random_numbers random(seed);
  std::vector<float> weights(rows * columns);
  for (float& weight : weights) weight = ecq::bf16(static_cast<float>(sigma * random.student_t4()));
  return weights;
}

/// Returns rows of log-normal scale (sigma of the logarithm 0.5), with one weight in a thousand 20 times as large.
inline std::vector<float> row_varying(std::size_t rows, std::size_t columns, std::uint64_t seed = 1,
                                      float sigma = 0.02F) {
  random_numbers random(seed);
  std::vector<float> weights(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    const double scale = sigma * std::exp(0.5 * random.normal());
    for (std::size_t column = 0; column < columns; ++column) {
      double weight = scale * random.normal();
      if (random.uniform() < 0.001) weight *= 20;
      weights[row * columns + column] = ecq::bf16(static_cast<float>(weight));
    }
  }
  return weights;
}

}  // namespace ecq_test
