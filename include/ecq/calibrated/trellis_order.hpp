#pragma once
/// \file
/// The order of columns in which error feedback and the lanes of a trellis get along. Needs Eigen 3.3 (target
/// ecq::calibrated).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/calibrated/input_moments.hpp"

namespace ecq::detail {

/// Feedback may take columns in any order. A lane's path goes through its columns of one row, and on through those of
/// the next, so the columns of a lane follow one another: all that was quantised before them is known when the path is
/// searched, and only errors of the path itself are not.
///
/// A *set* of columns belongs to the same lanes in every row: to one lane where the columns are a multiple of 128, else
/// to several, which take turns. Then a path knows less: nothing of lanes of its set that come later.
class trellis_order {
 public:
  /// Of a matrix whose first weight is at `first` in its stream. Precondition: less than 2^32 columns.
  trellis_order(std::size_t columns, std::uint64_t first)
      : columns_(columns), sets_(sets_of(columns)), phase_(phase(columns, first)) {
    std::iota(columns_.begin(), columns_.end(), 0U);
    if (sets_ == 1) return;
    const auto key = [&](std::uint32_t column) {
      const std::size_t quad = (phase_ + column) / rounds_per_group;
      return std::tuple(quad % sets_, quad % lane_count, column);
    };
    std::ranges::sort(columns_, {}, key);
  }

  /// What the order depends on besides the columns: matrices of one input and one phase have one order.
  static std::size_t phase(std::size_t columns, std::uint64_t first) {
    const std::size_t sets = sets_of(columns);
    return sets == 1 ? 0 : static_cast<std::size_t>(first % (sets * rounds_per_group));
  }

  /// The column at each place.
  std::span<const std::uint32_t> columns() const noexcept { return columns_; }
  /// Sets have as many columns each. The lanes of a set are its number, that plus sets(), and so on.
  std::size_t sets() const noexcept { return sets_; }
  std::size_t columns_of_set() const noexcept { return columns_.size() / sets_; }

 private:
  static std::size_t sets_of(std::size_t columns) {
    const std::size_t shared = std::gcd(columns, group_symbols);
    return shared > rounds_per_group ? shared / rounds_per_group : 1;
  }

  std::vector<std::uint32_t> columns_;
  std::size_t sets_;
  std::size_t phase_;
};

/// Moments of the columns in `order`: column order[i] comes to place i. Precondition: a permutation of all columns.
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
