#pragma once
/// \file
/// The magnitudes of one group's weights, and the sums over them that scale searches need.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/distortion.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/padded_row.hpp"
#include "ecq/quantize/rounding.hpp"

namespace ecq::detail {

/// Returns Distortion::of, lane by lane, limited to the largest finite number.
template <distortion Distortion>
float_lanes distortion_of(float_lanes difference) noexcept {
  if constexpr (std::is_same_v<Distortion, relative_l1>) {
    return magnitude_of(difference);
  } else if constexpr (std::is_same_v<Distortion, squared_error>) {
    return smaller_of(difference * difference, every_lane<float_lanes>((std::numeric_limits<float>::max)()));
  } else {
    auto lanes = std::bit_cast<std::array<float, lanes_at_once>>(difference);
    for (float& lane : lanes) lane = (std::min)(Distortion::of(lane), (std::numeric_limits<float>::max)());
    return std::bit_cast<float_lanes>(lanes);
  }
}

/// Sums `term(magnitudes)`, an array of Count float_lanes, over `row` (a multiple of row_padding weights) in the order
/// of row_sums().
template <std::size_t Count, class Term>
ECQ_EXACT_FLOAT std::array<double, Count> sum_lanes(std::span<const float> row, const Term& term) {
  ECQ_EXACT_FLOAT_BODY
  static_assert(row_padding == lanes_of_tile);
  constexpr std::size_t steps = row_padding / lanes_at_once;
  const auto tile_at = [&](std::size_t first) {
    const std::size_t last = (std::min)(first + tile_weights, row.size());
    std::array<std::array<float_lanes, steps>, Count> partial{};
    for (std::size_t at = first; at < last; at += row_padding) {
      const auto step = [&](std::size_t index) {
        float_lanes magnitudes;
        std::memcpy(&magnitudes, row.data() + at + index * lanes_at_once, sizeof magnitudes);
        const std::array<float_lanes, Count> terms = term(magnitudes);
        for (std::size_t sum = 0; sum < Count; ++sum) partial[sum][index] += terms[sum];
      };
      if constexpr (steps == 4) {  // if steps are spelt out, compilers keep the sums in registers
        step(0);
        step(1);
        step(2);
        step(3);
      } else {
        for (std::size_t index = 0; index < steps; ++index) step(index);
      }
    }
    return std::bit_cast<std::array<std::array<float, row_padding>, Count>>(partial);
  };
  std::array<double, Count> folded;
  if (row.size() <= tile_weights) {  // all other sums are zero
    const auto tile = tile_at(0);
    for (std::size_t sum = 0; sum < Count; ++sum) {
      double lanes[row_padding];
      for (std::size_t lane = 0; lane < row_padding; ++lane) lanes[lane] = static_cast<double>(tile[sum][lane]);
      folded[sum] = fold<row_padding>(lanes);
    }
    return folded;
  }
  const std::size_t width = row_sums(row.size());
  double sums[Count][most_row_sums];
  for (auto& some : sums) std::fill_n(some, width, 0.0);
  for (std::size_t first = 0; first < row.size(); first += tile_weights) {
    const auto tile = tile_at(first);
    const std::size_t column = first / tile_weights * row_padding % width;
    for (std::size_t sum = 0; sum < Count; ++sum) {
      for (std::size_t lane = 0; lane < row_padding; ++lane) {
        sums[sum][column + lane] += static_cast<double>(tile[sum][lane]);
      }
    }
  }
  for (std::size_t sum = 0; sum < Count; ++sum) {
    folded[sum] = width == most_row_sums ? fold<most_row_sums>(sums[sum]) : fold<fewest_row_sums>(sums[sum]);
  }
  return folded;
}

template <class Format, distortion Distortion>
ECQ_EXACT_FLOAT group_sums sums_at_scale(std::span<const float> row, float scale) {
  ECQ_EXACT_FLOAT_BODY
  const float inverse = 1.0F / scale;
  const auto sums = sum_lanes<2>(row, [=](float_lanes magnitudes) {
    const float_lanes reals = smaller_of(magnitudes * inverse, every_lane<float_lanes>(Format::largest));
    const float_lanes values = rounding<Format>::nearest(reals);
    return std::array<float_lanes, 2>{distortion_of<Distortion>(values * scale - magnitudes),
                                      values > 0.0F ? magnitudes : float_lanes{}};
  });
  return {sums[0], sums[1]};
}

/// Area of a group in its matrix.
struct group_area {
  std::size_t first_row = 0;
  std::size_t rows = 0;
  std::size_t first_column = 0;
  std::size_t columns = 0;
};

/// Returns the area of group (down, across) of a layout.
constexpr group_area area_of(const group_layout& layout, std::size_t down, std::size_t across) noexcept {
  const std::size_t row = down * layout.rows_per_group;
  const std::size_t column = across * layout.columns_per_group;
  return {row, (std::min)(layout.rows_per_group, layout.rows - row), column,
          (std::min)(layout.columns_per_group, layout.columns - column)};
}

/// The magnitudes of a group times a power of two that brings the largest into [1, 4): no sum over them overflows, no
/// square vanishes, and scales are normal numbers whatever the weights. A group within one row is held in memory; a
/// group that spans rows is read anew, row by row, for every sum.
class group_weights {
 public:
  /// `backend` runs the loops over the rows of a group.
  group_weights(const cpu& backend, const weights_view& weights) : backend_(backend), weights_(weights) {}

  /// Selects the group in `area`. Precondition: its weights are finite.
  result<void> select(const group_area& area) {
    area_ = area;
    largest_ = 0.0F;
    exponent_ = 0;
    if (area.rows == 1) {
      load(0, buffer_);
      largest_ = largest_of(buffer_);
    } else {
      std::vector<float> largest(area.rows);
      ECQ_CHECK(parallel_for(backend_, area.rows, [&](std::size_t row) -> result<void> {
        std::vector<float> buffer;
        load(row, buffer);
        largest[row] = largest_of(buffer);
        return {};
      }));
      for (const float value : largest) largest_ = (std::max)(largest_, value);
    }
    exponent_ = exponent_of_group(largest_);
    largest_ *= power_of_two(-exponent_);
    if (area.rows == 1) normalize(buffer_);
    return {};
  }

  bool all_zero() const noexcept { return largest_ == 0.0F; }
  /// Returns the largest magnitude, normalised.
  float largest() const noexcept { return largest_; }
  /// Returns the exponent of the group: weight = +-magnitude * 2^exponent.
  int exponent() const noexcept { return exponent_; }
  std::size_t size() const noexcept { return area_.rows * area_.columns; }

  /// Returns the sum of Distortion::of(magnitude).
  template <distortion Distortion>
  result<double> total() const {
    double sum = 0;
    ECQ_CHECK(each_row<double>(
        [](std::span<const float> row) {
          return sum_lanes<1>(row, [](float_lanes magnitudes) {
            return std::array<float_lanes, 1>{distortion_of<Distortion>(magnitudes)};
          })[0];
        },
        sum));
    return sum;
  }

  /// Returns the sums at `scale`. Precondition: it has at most 16 significant bits (see with_short_significand).
  template <class Format, distortion Distortion>
  result<group_sums> at(float scale) const {
    group_sums sums;
    ECQ_CHECK(each_row<group_sums>(
        [scale](std::span<const float> row) { return sums_at_scale<Format, Distortion>(row, scale); }, sums));
    return sums;
  }

 private:
  void load(std::size_t row, std::vector<float>& buffer) const {
    load_padded(weights_, area_.first_row + row, area_.first_column, area_.columns, buffer);
  }

  static float largest_of(std::span<const float> row) noexcept {
    constexpr std::size_t steps = row_padding / lanes_at_once;
    float_lanes largest[steps] = {};
    for (std::size_t at = 0; at < row.size(); at += row_padding) {
      for (std::size_t index = 0; index < steps; ++index) {
        float_lanes values;
        std::memcpy(&values, row.data() + at + index * lanes_at_once, sizeof values);
        largest[index] = larger_of(largest[index], magnitude_of(values));
      }
    }
    float lanes[row_padding];
    std::memcpy(lanes, largest, sizeof lanes);
    return *std::max_element(lanes, lanes + row_padding);
  }

  void normalize(std::span<float> row) const noexcept {
    const float factor = power_of_two(-exponent_);
    for (std::size_t at = 0; at < row.size(); at += lanes_at_once) {
      float_lanes values;
      std::memcpy(&values, row.data() + at, sizeof values);
      values = magnitude_of(values) * factor;
      std::memcpy(row.data() + at, &values, sizeof values);
    }
  }

  /// Adds sum_of(row) of every row to `sum`, in the order of the rows.
  template <class Sum, class SumOf>
  result<void> each_row(const SumOf& sum_of, Sum& sum) const {
    if (area_.rows == 1) {
      sum += sum_of(std::span<const float>(buffer_));
      return {};
    }
    std::vector<Sum> partial(area_.rows);
    ECQ_CHECK(parallel_for(backend_, area_.rows, [&](std::size_t row) -> result<void> {
      std::vector<float> buffer;
      load(row, buffer);
      normalize(buffer);
      partial[row] = sum_of(std::span<const float>(buffer));
      return {};
    }));
    for (const Sum& part : partial) sum += part;
    return {};
  }

  const cpu& backend_;
  const weights_view& weights_;
  group_area area_;
  std::vector<float> buffer_;
  float largest_ = 0.0F;
  int exponent_ = 0;
};

/// Calls `task(group, group_weights&)` for every group of `layout`; `group` is its index. Many groups run in parallel;
/// a few large ones run one after another, with their rows in parallel.
template <class Task>
result<void> for_each_group(const cpu& backend, const weights_view& weights, const group_layout& layout, Task&& task) {
  if (weights.empty()) return {};  // however many rows there are
  const std::size_t down = layout.groups_down();
  const bool many = layout.rows_per_group == 1 || down >= 2 * static_cast<std::size_t>(backend.thread_count());
  const cpu single{.threads = 1};
  return parallel_for(many ? backend : single, down, [&](std::size_t i) -> result<void> {
    group_weights group(many ? single : backend, weights);
    for (std::size_t across = 0; across < layout.groups_across(); ++across) {
      ECQ_CHECK(group.select(area_of(layout, i, across)));
      ECQ_CHECK(task(i * layout.groups_across() + across, group));
    }
    return {};
  });
}

}  // namespace ecq::detail
