#pragma once
/// \file
/// Order of columns that suits both error feedback and the lanes of a trellis. Needs Eigen 3.3 (target
/// ecq::calibrated).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/calibrated/input_moments.hpp"

namespace ecq::detail {

/// Order of the columns of a matrix. Feedback may take columns in any order, and a path knows the errors of the columns
/// before. A lane has four neighbours of every 128 columns: a *class* of columns, all of which belong to another lane
/// in the next row. Classes that have the same lanes in every row are a *set*. Its lanes take turns: from row to row, a
/// lane goes down one class of the set, and from the lowest back to the highest. So a path that leads from the highest
/// class in one row to the lowest in a later one knows all errors that count, if the paths that began in rows above are
/// decided.
///
/// Where the number of columns is a multiple of 128, each lane is a set of its own, and one path can lead through all
/// rows.
class trellis_order {
 public:
  /// Makes the order for a matrix whose first weight is at `first` in its stream. Precondition: fewer than 2^32
  /// columns.
  trellis_order(std::size_t columns, std::uint64_t first)
      : columns_(columns), lanes_per_row_(columns / rounds_per_group), phase_(phase(columns, first)) {
    std::iota(columns_.begin(), columns_.end(), 0U);
    class_begin_.assign(lane_count + 1, columns);
    class_begin_.front() = 0;
    if (!has_classes()) return;
    sets_ = sets_of(columns);
    const auto number = [&](std::uint32_t column) { return place_of(quad(column) % lane_count); };
    std::ranges::sort(columns_, {}, [&](std::uint32_t column) { return std::pair(number(column), column); });
    for (std::size_t at = 0, end = 0; at < lane_count; ++at) {
      while (end < columns && number(columns_[end]) == at) ++end;
      class_begin_[at + 1] = end;
    }
  }

  /// Returns the number on which the order depends besides the columns: matrices of the same input and phase have the
  /// same order.
  static std::size_t phase(std::size_t columns, std::uint64_t first) {
    return columns % rounds_per_group == 0 ? static_cast<std::size_t>(first % (sets_of(columns) * rounds_per_group))
                                           : 0;
  }

  /// Returns the column at each place.
  std::span<const std::uint32_t> columns() const noexcept { return columns_; }

  /// Whether a lane has the same columns of a row as other lanes have of the next rows: rows are multiples of four
  /// columns. If not, there is one set with one class.
  bool has_classes() const noexcept { return columns_.size() % rounds_per_group == 0; }
  std::size_t sets() const noexcept { return sets_; }
  /// Returns the number of classes of a set, and of lanes that share it.
  std::size_t classes() const noexcept { return has_classes() ? lane_count / sets_ : 1; }
  /// Returns the place where class number `index` of a set begins or, if `index` is classes(), where the set ends.
  std::size_t place(std::size_t set, std::size_t index) const noexcept { return class_begin_[set * classes() + index]; }
  std::size_t columns_of_set() const noexcept { return columns_.size() / sets_; }

  /// Returns the lane of a class in row `row` of a matrix whose first weight is at `first` in its stream.
  std::size_t lane(std::size_t set, std::size_t index, std::uint64_t first, std::uint64_t row) const noexcept {
    const std::uint64_t turned = (row + index) % lane_count * (lanes_per_row_ % lane_count);
    return static_cast<std::size_t>((set + turned + (first - phase_) / rounds_per_group) % lane_count);
  }

 private:
  static std::size_t sets_of(std::size_t columns) { return std::gcd(columns / rounds_per_group, lane_count); }

  std::size_t quad(std::uint32_t column) const noexcept { return (phase_ + column) / rounds_per_group; }

  /// Returns the number of the class, counted by sets, of the quads that are `quad` modulo 32.
  std::size_t place_of(std::size_t quad) const noexcept {
    const std::size_t set = quad % sets_;
    std::size_t index = 0;
    while ((set + index * lanes_per_row_) % lane_count != quad) ++index;
    return set * classes() + index;
  }

  std::vector<std::uint32_t> columns_;
  std::vector<std::size_t> class_begin_;
  std::size_t lanes_per_row_;  ///< number of lanes by which each row turns them
  std::size_t phase_;
  std::size_t sets_ = 1;
};

/// Returns the moments of the columns in `order`: column order[i] comes to place i. Precondition: `order` is a
/// permutation of all columns.
inline input_moments in_order(input_moments moments, std::span<const std::uint32_t> order) {
  std::vector<double> row(moments.width);
  for (std::vector<double>* const values : {&moments.second, &moments.cross}) {
    if (values->empty()) continue;
    const auto row_of = [&](std::size_t at) { return values->begin() + static_cast<std::ptrdiff_t>(at * row.size()); };
    for (std::size_t at = 0; at < row.size(); ++at) {
      std::copy_n(row_of(at), row.size(), row.begin());
      std::ranges::transform(order, row_of(at), [&](std::uint32_t from) { return row[from]; });
    }
    // Rows move along the cycles of the permutation, so no second matrix is needed.
    std::vector<bool> done(row.size());
    for (std::size_t first = 0; first < row.size(); ++first) {
      if (done[first] || order[first] == first) continue;
      std::copy_n(row_of(first), row.size(), row.begin());
      std::size_t to = first;
      for (; order[to] != first; to = order[to]) {
        std::copy_n(row_of(order[to]), row.size(), row_of(to));
        done[order[to]] = true;
      }
      std::ranges::copy(row, row_of(to));
    }
  }
  return moments;
}

}  // namespace ecq::detail
