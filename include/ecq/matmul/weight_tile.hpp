#pragma once
/// \file
/// Products of a tile of weights with some rows of activations, in the order of matmul/fusion.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Columns of activations that are multiplied at a time: four rows of them stay in the first cache.
inline constexpr std::size_t tile_columns = 2048;

/// Columns of weights that are multiplied.
struct column_range {
  std::size_t first;
  std::size_t count;     ///< at least 1
  std::size_t of_scale;  ///< columns that share a scale, from column 0 on

  /// The number of scales that they have.
  constexpr std::size_t scales() const { return (first + count - 1) / of_scale - first / of_scale + 1; }
};

/// sums[(row * columns.scales() + i) * batch + b] += the sum of weight (row, column) * x (b, column) over the columns
/// of scale i, whole blocks of them. `weights` begin with the first one of `columns`, `x` with column 0.
/// `Dots::add<Rows, Batch>(weights, weight_stride, x, stride, columns, sums, sum_stride)` does so for few rows: one or
/// Dots::rows, by one or four.
template <class Dots>
inline void add_tile_products(const std::uint16_t* weights, std::size_t weight_stride, std::size_t rows,
                              const typename Dots::activation* x, std::size_t stride, const column_range& columns,
                              std::size_t batch, float* sums) {
  const std::size_t sum_stride = columns.scales() * batch;
  for (std::size_t done = 0; done < columns.count; done += tile_columns) {
    const std::size_t some = (std::min)(tile_columns, columns.count - done);
    for (std::size_t b = 0; b < batch;) {
      const std::size_t together = batch - b < 4 ? 1 : 4;
      for (std::size_t row = 0; row < rows;) {
        const bool many = rows - row >= Dots::rows;
        for_each_scale(columns.first + done, some, columns.of_scale,
                       [&](std::size_t column, std::size_t count, std::size_t number) {
                         const std::uint16_t* const own = weights + row * weight_stride + (column - columns.first);
                         const auto* const from = x + b * stride + column;
                         float* const to =
                             sums + row * sum_stride + (number - columns.first / columns.of_scale) * batch + b;
                         if (many && together == 4) {
                           Dots::template add<Dots::rows, 4>(own, weight_stride, from, stride, count, to, sum_stride);
                         } else if (many) {
                           Dots::template add<Dots::rows, 1>(own, weight_stride, from, stride, count, to, sum_stride);
                         } else if (together == 4) {
                           Dots::template add<1, 4>(own, weight_stride, from, stride, count, to, sum_stride);
                         } else {
                           Dots::template add<1, 1>(own, weight_stride, from, stride, count, to, sum_stride);
                         }
                       });
        row += many ? Dots::rows : 1;
      }
      b += together;
    }
  }
}

}  // namespace ecq::detail
