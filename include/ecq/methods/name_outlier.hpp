#pragma once
/// \file
/// Search for the weight that keeps a rate from being met.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/methods/method.hpp"

namespace ecq::detail {

/// Largest magnitude of a matrix, its position, and the sum of all magnitudes.
struct matrix_extreme {
  double largest = 0;
  std::size_t row = 0;
  std::size_t column = 0;
  double sum = 0;

  /// Returns the largest magnitude divided by the mean of the others; 0 for a matrix of zeros.
  double ratio(std::size_t weights) const noexcept {
    if (largest == 0 || weights < 2) return 0;
    const double others = (std::max)(sum - largest, 0.0) / static_cast<double>(weights - 1);
    return largest / (std::max)(others, 0x1p-149);
  }
};

inline result<matrix_extreme> extreme_of(const cpu& backend, const weights_view& weights) {
  std::vector<matrix_extreme> rows(weights.rows());
  ECQ_CHECK(parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    std::vector<float> values(weights.columns());
    weights.load(row, 0, values);
    matrix_extreme& found = rows[row];
    for (std::size_t column = 0; column < values.size(); ++column) {
      if (!fp32::is_finite(std::bit_cast<std::uint32_t>(values[column]))) continue;
      const auto magnitude = static_cast<double>(std::fabs(values[column]));
      found.sum += magnitude;
      if (magnitude > found.largest) {
        found.largest = magnitude;
        found.row = row;
        found.column = column;
      }
    }
    return {};
  }));
  matrix_extreme whole;
  for (const matrix_extreme& row : rows) {
    const double sum = whole.sum + row.sum;
    if (row.largest > whole.largest) whole = row;
    whole.sum = sum;
  }
  return whole;
}

/// Returns `found`. If that is errc::unreachable_target, the message also names the cause, if there is one. If a weight
/// is more than 2^20 times the mean of the others of its matrix, the message names the weight for which this ratio is
/// largest. Otherwise it names the matrix with the largest weights above 2^100, for which there may be no scales. Reads
/// all weights.
inline error name_outlier(const cpu& backend, std::span<const named_weights* const> matrices, const error& found) {
  if (found.code() != errc::unreachable_target) return found;
  double most = 0x1p20;
  double largest = 0x1p100;
  error named = found;
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    const auto extreme = extreme_of(backend, matrices[index]->weights);
    if (!extreme) return found;
    const std::string matrix = label_of(*matrices[index], index);
    if (const double ratio = extreme->ratio(matrices[index]->weights.size()); ratio > most) {
      most = ratio;
      largest = std::numeric_limits<double>::infinity();
      named = error(found.code(), found.message(), "; in ", matrix, ", the weight at row ", extreme->row, ", column ",
                    extreme->column, " is about 2^", std::ilogb(ratio), " times the mean of the others");
    } else if (extreme->largest > largest) {
      largest = extreme->largest;
      named = error(found.code(), found.message(), "; weights of ", matrix, " reach 2^", std::ilogb(largest),
                    ", which needs scales near the limit of FP32");
    }
  }
  return named;
}

}  // namespace ecq::detail
