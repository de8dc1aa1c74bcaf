#pragma once
/// \file
/// Definition of checks that methods share.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "ecq/methods/method.hpp"

namespace ecq::detail {

ECQ_INLINE std::string label_of(const named_weights& matrix, std::size_t index) {
  return matrix.name.empty() ? text_of("matrix ", index) : text_of("tensor '", matrix.name, "'");
}

ECQ_INLINE result<void> check_lambda_factors(const named_weights& matrix, std::size_t index) {
  const auto fails = [](double factor) { return !(factor > 0) || !(factor < std::numeric_limits<double>::infinity()); };
  const std::span<const double> rows = matrix.row_factors;
  if (fails(matrix.lambda_factor)) {
    return error(errc::invalid_argument, label_of(matrix, index), ": lambda factor is ", matrix.lambda_factor,
                 ", not a finite number above 0");
  }
  if (!rows.empty() && rows.size() != matrix.weights.rows()) {
    return error(errc::invalid_argument, label_of(matrix, index), ": ", rows.size(), " row factors for ",
                 matrix.weights.rows(), " rows");
  }
  if (const auto wrong = std::ranges::find_if(rows, fails); wrong != rows.end()) {
    return error(errc::invalid_argument, label_of(matrix, index), ": row ", wrong - rows.begin(), ": lambda factor is ",
                 *wrong, ", not a finite number above 0");
  }
  return {};
}

}  // namespace ecq::detail
