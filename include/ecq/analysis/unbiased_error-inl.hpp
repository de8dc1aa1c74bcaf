#pragma once
/// \file
/// Definition of the error of weights without their bias.

#include <cstddef>
#include <vector>

#include "ecq/analysis/unbiased_error.hpp"

namespace ecq {

ECQ_INLINE result<weight_error> measure_unbiased_error(const cpu& backend, weights_view original,
                                                       weights_view reconstructed) {
  if (original.rows() != reconstructed.rows() || original.columns() != reconstructed.columns()) {
    return error(errc::invalid_argument, "original is ", original.rows(), " x ", original.columns(),
                 ", reconstructed is ", reconstructed.rows(), " x ", reconstructed.columns());
  }
  if (original.empty()) return weight_error();  // however many rows there are
  std::vector<weight_error> rows(original.rows());
  ECQ_CHECK(parallel_for(backend, rows.size(), [&](std::size_t row) -> result<void> {
    std::vector<float> before(original.columns()), after(original.columns());
    original.load(row, 0, before);
    reconstructed.load(row, 0, after);
    const double gain = unbiased_gain_of(before, after);
    for (float& weight : after) weight = static_cast<float>(gain * static_cast<double>(weight));
    rows[row].add(before, after);
    return {};
  }));
  weight_error total;
  for (const weight_error& row : rows) total += row;
  return total;
}

}  // namespace ecq
