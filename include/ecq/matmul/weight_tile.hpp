#pragma once
/// \file
/// Products of a tile of weights with some rows of activations, in the order of matmul/fusion.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// Columns of activations that are multiplied at a time: four rows of them stay in the first cache.
inline constexpr std::size_t tile_columns = 2048;

/// sums[row * batch + b] += the sum of weight (row, column) * x (b, column) for `count` columns, whole groups of them.
/// `Dots::add<Rows, Batch>(weights, weight_stride, x, stride, columns, sums, sum_stride)` does so for few rows: one or
/// Dots::rows, by one or four.
template <class Dots>
inline void add_tile_products(const std::uint16_t* weights, std::size_t weight_stride, std::size_t rows, const float* x,
                              std::size_t stride, std::size_t count, std::size_t batch, float* sums) {
  for (std::size_t column = 0; column < count; column += tile_columns) {
    const std::size_t some = (std::min)(tile_columns, count - column);
    for (std::size_t b = 0; b < batch;) {
      const std::size_t together = batch - b < 4 ? 1 : 4;
      const float* const from = x + b * stride + column;
      for (std::size_t row = 0; row < rows;) {
        const std::uint16_t* const own = weights + row * weight_stride + column;
        float* const to = sums + row * batch + b;
        const bool many = rows - row >= Dots::rows;
        if (many && together == 4) {
          Dots::template add<Dots::rows, 4>(own, weight_stride, from, stride, some, to, batch);
        } else if (many) {
          Dots::template add<Dots::rows, 1>(own, weight_stride, from, stride, some, to, batch);
        } else if (together == 4) {
          Dots::template add<1, 4>(own, weight_stride, from, stride, some, to, batch);
        } else {
          Dots::template add<1, 1>(own, weight_stride, from, stride, some, to, batch);
        }
        row += many ? Dots::rows : 1;
      }
      b += together;
    }
  }
}

}  // namespace ecq::detail
