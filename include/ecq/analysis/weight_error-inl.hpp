#pragma once
/// \file
/// Definition of the error of weights.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ecq/analysis/weight_error.hpp"

namespace ecq {

ECQ_INLINE result<weight_error> measure_error(const cpu& backend, weights_view original, weights_view reconstructed) {
  if (original.rows() != reconstructed.rows() || original.columns() != reconstructed.columns()) {
    return error(errc::invalid_argument, "original is ", original.rows(), " x ", original.columns(),
                 ", reconstructed is ", reconstructed.rows(), " x ", reconstructed.columns());
  }
  constexpr std::size_t weights_per_task = std::size_t{1} << 18;
  constexpr std::size_t piece = 4096;
  if (original.empty()) return weight_error{};
  const std::size_t rows_per_task = (std::max)(std::size_t{1}, weights_per_task / original.columns());
  const std::size_t tasks = original.rows() / rows_per_task + (original.rows() % rows_per_task != 0 ? 1U : 0U);
  std::vector<weight_error> parts(tasks);
  ECQ_CHECK(parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
    std::array<float, piece> before;
    std::array<float, piece> after;
    const std::size_t first_row = task * rows_per_task;
    const std::size_t last_row = first_row + (std::min)(rows_per_task, original.rows() - first_row);
    for (std::size_t row = first_row; row < last_row; ++row) {
      for (std::size_t column = 0; column < original.columns(); column += piece) {
        const std::size_t length = (std::min)(piece, original.columns() - column);
        original.load(row, column, std::span(before).first(length));
        reconstructed.load(row, column, std::span(after).first(length));
        parts[task].add(std::span(before).first(length), std::span(after).first(length));
      }
    }
    return {};
  }));
  weight_error total;
  for (const weight_error& part : parts) total += part;
  return total;
}

}  // namespace ecq
