#pragma once
/// \file
/// Rows of activations in the order in which kernels multiply them, once for each place at which rows of weights begin
/// in a group.

#include <algorithm>
#include <cstddef>

#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Arrangement of rows of weights in groups.
struct row_places {
  std::size_t columns;
  std::size_t group;   ///< weights in a group, at most as many as in a group of pairs
  std::size_t phases;  ///< number of places in a group where rows begin, multiples of group / phases (most_row_phases)

  /// Returns the columns of an ordered row, whole groups: enough for a row of weights at every place.
  std::size_t ordered_columns() const noexcept {
    return (columns + group - group / phases + group - 1) / group * group;
  }
};

/// Calls place(values, at) for each group of each ordered row. Ordered rows have ordered_columns() columns each and
/// follow one another, first all rows for the first place. `values` are the group's activations in the order of their
/// columns, with zeros for weights of other rows; they belong at `at` and behind it. `row_of(b)` returns the `columns`
/// activations of row b.
template <class Value, class RowOf, class Place>
void order_rows(const row_places& of, std::size_t rows, const RowOf& row_of, const Place& place) {
  Value padded[group_of(fusion::pairs)];
  const std::size_t stride = of.ordered_columns();
  for (std::size_t row = 0; row < of.phases * rows; ++row) {
    const std::size_t phase = row / rows * (of.group / of.phases);
    const Value* const from = row_of(row % rows);
    for (std::size_t first = 0; first < stride; first += of.group) {
      if (first >= phase && first - phase + of.group <= of.columns) {
        place(from + (first - phase), row * stride + first);
        continue;
      }
      for (std::size_t i = 0; i < of.group; ++i) {
        const std::size_t column = first + i - phase;  // columns before the row wrap around
        padded[i] = column < of.columns ? from[column] : Value{};
      }
      place(static_cast<const Value*>(padded), row * stride + first);
    }
  }
}

}  // namespace ecq::detail
