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
    return error(errc::invalid_argument, label_of(matrix, index), ": a factor of lambda of ", matrix.lambda_factor);
  }
  if (!rows.empty() && rows.size() != matrix.weights.rows()) {
    return error(errc::invalid_argument, label_of(matrix, index), ": ", rows.size(),
                 " factors of rows, of which there are ", matrix.weights.rows());
  }
  if (const auto wrong = std::ranges::find_if(rows, fails); wrong != rows.end()) {
    return error(errc::invalid_argument, label_of(matrix, index), ": row ", wrong - rows.begin(),
                 ": a factor of lambda of ", *wrong);
  }
  return {};
}

}  // namespace ecq::detail
