#pragma once
/// \file
/// Granularity of scales: which weights share one scale.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>

#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// A matrix cut into groups of rows_per_group x columns_per_group weights, one scale each; the last group of a row or
/// column may be smaller. Group (i, j) has index i * groups_across + j. If rows_per_group and columns_per_group are 0,
/// there are no groups and no scales.
struct group_layout {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rows_per_group = 1;     ///< at least 1, or none
  std::size_t columns_per_group = 1;  ///< at least 1, or none

  constexpr std::size_t groups_down() const noexcept { return groups(rows, rows_per_group); }
  constexpr std::size_t groups_across() const noexcept { return groups(columns, columns_per_group); }
  constexpr std::size_t count() const noexcept { return groups_down() * groups_across(); }

  /// Returns the layout of the same groups if the same number of weights, in the same order, form a matrix of
  /// `row_count` rows. Returns nothing if the weights do not form whole rows, or if the groups are not runs of one
  /// length, one behind another, that divide a row or consist of whole rows.
  constexpr std::optional<group_layout> with_rows(std::size_t row_count) const noexcept {
    if (row_count == rows) return *this;
    const std::size_t size = rows * columns;
    if (row_count == 0 || size % row_count != 0) return std::nullopt;
    const std::size_t wide = size / row_count;
    if (rows_per_group == 0) return group_layout{row_count, wide, 0, 0};
    std::size_t run = 0;  // weights of a group
    if (rows_per_group == 1 && columns % columns_per_group == 0) {
      run = columns_per_group;
    } else if (columns_per_group >= columns && rows % rows_per_group == 0) {
      run = rows_per_group * columns;
    }
    if (run == 0) return std::nullopt;
    if (wide % run == 0) return group_layout{row_count, wide, 1, run};
    if (run % wide == 0) return group_layout{row_count, wide, run / wide, wide};
    return std::nullopt;
  }

  friend constexpr bool operator==(const group_layout&, const group_layout&) = default;

 private:
  static constexpr std::size_t groups(std::size_t extent, std::size_t each) noexcept {
    return each == 0 ? 0 : extent / each + (extent % each != 0 ? 1U : 0U);
  }
};

/// A policy that says which weights share a scale (group_layout).
template <class Policy>
concept granularity = std::default_initializable<Policy> && requires(const Policy policy, std::size_t extent) {
  { policy.layout(extent, extent) } -> std::same_as<group_layout>;
};

/// One scale for the whole matrix.
struct per_tensor {
  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return {rows, columns, (std::max)(rows, std::size_t{1}), (std::max)(columns, std::size_t{1})};
  }
};

/// One scale per row (output channel): EntQuant's choice and the default.
struct per_channel {
  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return {rows, columns, 1, (std::max)(columns, std::size_t{1})};
  }
};

/// One scale for `size` neighbouring weights of a row.
struct per_group {
  std::size_t size = 128;  ///< at least 1

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return {rows, columns, 1, (std::max)(size, std::size_t{1})};
  }
};

static_assert(granularity<per_tensor> && granularity<per_channel> && granularity<per_group>);

namespace detail {

/// Fails with errc::invalid_argument unless `layout` is a layout of `weights` and has `scales` scales.
inline result<void> check_layout(const weights_view& weights, const group_layout& layout, std::size_t scales) {
  if (layout.rows != weights.rows() || layout.columns != weights.columns() || layout.rows_per_group == 0 ||
      layout.columns_per_group == 0) {
    return error(errc::invalid_argument, "layout of ", layout.rows, " x ", layout.columns, " does not fit weights of ",
                 weights.rows(), " x ", weights.columns());
  }
  if (scales != layout.count()) {
    return error(errc::invalid_argument, "output has room for ", scales, " scales, but the layout has ",
                 layout.count());
  }
  return {};
}

}  // namespace detail

}  // namespace ecq
