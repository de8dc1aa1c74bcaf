#pragma once
/// \file
/// Access to matrices one part at a time, so that memory does not grow with them.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq::detail {

/// Whole rows of a matrix, or a part of one long row, from element `first` on.
struct matrix_part {
  std::size_t first, rows, columns;

  weights_view of(dtype type, std::span<const std::byte> elements) const {
    return {type, elements.data(), rows, columns, static_cast<std::ptrdiff_t>(columns)};
  }
};

/// Calls `use(part)`, which returns result<void>, for parts of at most `most` elements, in order; precondition: most >
/// 0.
template <class Use>
result<void> for_each_part(std::size_t rows, std::size_t columns, std::size_t most, Use&& use) {
  for (std::size_t row = 0; row < rows && columns != 0;) {
    const std::size_t count = (std::min)((std::max)(std::size_t{1}, most / columns), rows - row);
    for (std::size_t column = 0; column < columns;) {
      const std::size_t length = (std::min)(columns - column, most);
      ECQ_CHECK(use(matrix_part{row * columns + column, count, length}));
      column += length;
    }
    row += count;
  }
  return {};
}

}  // namespace ecq::detail
