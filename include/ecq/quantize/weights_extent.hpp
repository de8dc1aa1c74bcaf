#pragma once
/// \file
/// Root of the mean square and largest magnitude of a matrix's weights.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lane_sum.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/finite.hpp"

namespace ecq::detail {

/// Root of the mean square of a matrix's weights, and their largest magnitude; 0 without weights.
struct weights_extent {
  double rms = 0;
  double largest = 0;
  std::vector<float> largest_of_rows{};

  /// Returns the step of an evenly spaced grid whose codes reach `end` on either side: `share` of the root of the mean
  /// square, or more if a weight would otherwise lie beyond the grid.
  double step(double share, double end) const noexcept { return (std::max)(share * rms, largest / end); }
};

/// Returns the extent of `weights`, the same for every thread count. Errors: errc::non_finite, naming row and column.
ECQ_EXACT_FLOAT inline result<weights_extent> extent_of_weights(const cpu& backend, const weights_view& weights) {
  ECQ_EXACT_FLOAT_BODY
  struct row_extent {
    double square = 0;
    float most = 0;

    ECQ_EXACT_FLOAT void add(const std::vector<float>& values) noexcept {
      ECQ_EXACT_FLOAT_BODY
      lane_sum squares;
      std::size_t index = 0;
      for (; index + lane_sum::parts <= values.size(); index += lane_sum::parts) {
        for (std::size_t i = 0; i < lane_sum::parts; ++i) add_one(values[index + i], squares.part[i]);
      }
      for (std::size_t i = 0; index < values.size(); ++i, ++index) add_one(values[index], squares.part[i]);
      square += squares.total();
      std::int32_t bits = 0;  // magnitudes of floats are ordered like their bits, whose maximum compilers vectorise
      for (const float value : values) {
        bits = (std::max)(bits, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU));
      }
      most = std::bit_cast<float>(bits);
    }

    ECQ_EXACT_FLOAT static void add_one(float value, double& sum) noexcept {
      ECQ_EXACT_FLOAT_BODY
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
  };
  std::vector<row_extent> rows(weights.rows());
  ECQ_CHECK(parallel_for(backend, rows.size(), [&](std::size_t row) -> result<void> {
    std::vector<float> values(weights.columns());
    weights.load(row, 0, values);
    rows[row].add(values);
    return check_finite(values, row);
  }));
  double square = 0;
  weights_extent extent;
  for (const row_extent& row : rows) {
    square += row.square;
    extent.largest = (std::max)(extent.largest, static_cast<double>(row.most));
    extent.largest_of_rows.push_back(row.most);
  }
  if (!weights.empty()) extent.rms = std::sqrt(square / static_cast<double>(weights.size()));
  return extent;
}

}  // namespace ecq::detail
