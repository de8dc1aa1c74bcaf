#pragma once
/// \file
/// Definition of the search for outliers.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/analysis/outliers.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

namespace detail {

/// Loads the magnitudes of the weights of a row, 0 for NaN and infinity.
inline void load_magnitudes(const weights_view& weights, std::size_t row, std::vector<float>& out) {
  out.resize(weights.columns());
  weights.load(row, 0, out);
  for (float& value : out) value = fp32::is_finite(std::bit_cast<std::uint32_t>(value)) ? std::fabs(value) : 0.0F;
}

/// Whether `magnitude` is at least `ratio` times the mean of the other count - 1 magnitudes. `sum` is the sum of them
/// all.
inline bool stands_out(double magnitude, double sum, std::size_t count, double ratio) noexcept {
  return magnitude * static_cast<double>(count - 1) >= ratio * (sum - magnitude);
}

}  // namespace detail

ECQ_INLINE result<std::vector<std::uint64_t>> find_outliers(const cpu& backend, const weights_view& weights,
                                                            double ratio) {
  if (!(ratio > 1)) return error(errc::invalid_argument, "ratio of outliers is ", ratio, ", not above 1");
  if (weights.empty() || weights.size() < 2) return std::vector<std::uint64_t>{};
  const std::size_t rows = weights.rows();
  const std::size_t columns = weights.columns();
  // Each task keeps sums of columns of its own, so their memory grows with the number of tasks.
  const std::size_t tasks = (std::min)(rows, std::size_t{64});
  const auto first_row = [&](std::size_t task) { return rows / tasks * task + (std::min)(task, rows % tasks); };
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for sums of ", columns, " columns"); };
  return detail::or_out_of_memory(failed, [&]() -> result<std::vector<std::uint64_t>> {
    std::vector<double> of_rows(rows);
    std::vector<std::vector<double>> parts(tasks);
    ECQ_CHECK(parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
      std::vector<float> values;
      parts[task].resize(columns);
      for (std::size_t row = first_row(task); row < first_row(task + 1); ++row) {
        detail::load_magnitudes(weights, row, values);
        for (std::size_t column = 0; column < columns; ++column) {
          of_rows[row] += static_cast<double>(values[column]);
          parts[task][column] += static_cast<double>(values[column]);
        }
      }
      return {};
    }));
    std::vector<double> of_columns(columns);
    for (const std::vector<double>& part : parts) {
      for (std::size_t column = 0; column < columns; ++column) of_columns[column] += part[column];
    }
    std::vector<std::vector<std::uint64_t>> found(tasks);
    const std::uint64_t most = (std::max)(std::uint64_t{1}, static_cast<std::uint64_t>(weights.size()) >> 14U);
    ECQ_CHECK(parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
      std::vector<float> values;
      for (std::size_t row = first_row(task); row < first_row(task + 1); ++row) {
        detail::load_magnitudes(weights, row, values);
        for (std::size_t column = 0; column < columns && found[task].size() <= most; ++column) {
          const auto magnitude = static_cast<double>(values[column]);
          if (magnitude == 0 || !detail::stands_out(magnitude, of_rows[row], columns, ratio) ||
              !detail::stands_out(magnitude, of_columns[column], rows, ratio)) {
            continue;
          }
          found[task].push_back(std::uint64_t{row} * columns + column);
        }
      }
      return {};
    }));
    std::vector<std::uint64_t> all;
    for (const std::vector<std::uint64_t>& part : found) all.insert(all.end(), part.begin(), part.end());
    if (all.size() > most) all.clear();
    return all;
  });
}

}  // namespace ecq
