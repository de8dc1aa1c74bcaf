#pragma once
/// \file
/// EntroLLM's mixed quantisation: unsigned integers on one grid per tensor; the signs of the weights decide on a zero
/// point.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/group_weights.hpp"
#include "ecq/quantize/padded_row.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"

namespace ecq {

/// EntroLLM's quantiser (section III-A, Algorithm 1, lines 4-11). With L the largest code:
///
///  - weights of both signs: scale = (max - min) / L, zero = min (asymmetric);
///  - none below 0, or none above: scale = +-max|w| / L, zero = 0 (symmetric unsigned); scale = 1 if all are 0.
///
/// Signs decide, since the product max * min, which the paper tests, may underflow. The scale is rounded up to BF16, to
/// at least 2^-126, so that every weight, even the largest, is within half a step of its code's value.
struct entrollm {
  static constexpr std::string_view name = "entrollm";

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return per_tensor{}.layout(rows, columns);
  }

  /// Finds the grid of `weights`; its scale is negative if some weights are negative and none is positive. Errors:
  /// errc::non_finite, naming row and column; errc::invalid_argument if the weights span so wide a range that FP32
  /// cannot hold the value of every code.
  template <affine_format Format>
  result<affine_grid> fit(const cpu& backend, const weights_view& weights) const;

  /// Sets `codes` to the nearest codes on `grid`, which fit() found for these weights: rows * columns codes, row-major.
  template <affine_format Format>
  result<void> encode(const cpu& backend, const weights_view& weights, const affine_grid& grid,
                      std::span<std::uint8_t> codes) const;

  /// Runs fit() and encode(). `scales` holds one scale, or none if there are no weights.
  template <affine_format Format>
  result<void> quantize(const cpu& backend, weights_view weights, std::span<std::uint8_t> codes, std::span<bf16> scales,
                        float& zero) const {
    ECQ_CHECK(detail::check_layout(weights, layout(weights.rows(), weights.columns()), scales.size()));
    ECQ_TRY(grid, fit<Format>(backend, weights));
    zero = grid.zero;
    std::fill(scales.begin(), scales.end(), grid.scale);
    return encode<Format>(backend, weights, grid, codes);
  }
};

static_assert(affine_quantizer<entrollm, uint8> && affine_quantizer<entrollm, uint4>);

namespace detail {

/// Smallest and largest of some numbers.
struct value_range {
  float least = (std::numeric_limits<float>::max)();
  float most = (std::numeric_limits<float>::lowest)();

  void add(const value_range& other) noexcept {
    least = (std::min)(least, other.least);
    most = (std::max)(most, other.most);
  }
  void add(std::span<const float> values) noexcept {
    float_lanes low = every_lane<float_lanes>(least);
    float_lanes high = every_lane<float_lanes>(most);
    std::size_t at = 0;
    for (; at + lanes_at_once <= values.size(); at += lanes_at_once) {
      float_lanes some;
      std::memcpy(&some, values.data() + at, sizeof some);
      low = smaller_of(low, some);
      high = larger_of(high, some);
    }
    for (const float value : std::bit_cast<std::array<float, lanes_at_once>>(low)) least = (std::min)(least, value);
    for (const float value : std::bit_cast<std::array<float, lanes_at_once>>(high)) most = (std::max)(most, value);
    for (; at < values.size(); ++at) add({values[at], values[at]});
  }
};

/// Returns the smallest normal BF16 number not below `step`; infinity if `step` is above all of them.
inline bf16 scale_not_below(double step) noexcept {
  constexpr auto smallest = static_cast<double>((std::numeric_limits<float>::min)());
  constexpr auto largest = static_cast<double>(bf16::largest);
  if (step > largest) return bf16(std::numeric_limits<float>::infinity());
  const auto bounded = static_cast<float>((std::max)(step, smallest));
  const auto below = static_cast<bf16::code_type>(std::bit_cast<std::uint32_t>(bounded) >> 16);
  const bool exact = static_cast<double>(static_cast<float>(bf16::from_bits(below))) >= step;
  return bf16::from_bits(static_cast<bf16::code_type>(below + (exact ? 0 : 1)));
}

}  // namespace detail

template <affine_format Format>
result<affine_grid> entrollm::fit(const cpu& backend, const weights_view& weights) const {
  if (weights.empty()) return affine_grid{};
  std::vector<detail::value_range> ranges(weights.rows());
  ECQ_CHECK(parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    std::vector<float> values(weights.columns());
    weights.load(row, 0, values);
    ranges[row].add(values);
    return check_finite(values, row);
  }));
  detail::value_range all;
  for (const detail::value_range& range : ranges) all.add(range);
  affine_grid grid;
  if (all.least == 0 && all.most == 0) return grid;
  const bool both_signs = all.least < 0 && all.most > 0;
  const double reach = both_signs ? static_cast<double>(all.most) - static_cast<double>(all.least)
                                  : static_cast<double>((std::max)(all.most, -all.least));
  grid.scale = detail::scale_not_below(reach / static_cast<double>(Format::largest));
  if (both_signs) grid.zero = all.least;
  if (all.most <= 0) grid.scale = bf16::from_bits(static_cast<bf16::code_type>(grid.scale.bits | 0x8000U));
  if (grid.representable(Format::largest)) return grid;
  return error(errc::invalid_argument, "weights from ", all.least, " to ", all.most, " span too wide a range for ",
               Format::name, " with values in FP32");
}

template <affine_format Format>
result<void> entrollm::encode(const cpu& backend, const weights_view& weights, const affine_grid& grid,
                              std::span<std::uint8_t> codes) const {
  if (codes.size() != weights.size()) {
    return error(errc::invalid_argument, "output has room for ", codes.size(), " codes, but there are ", weights.size(),
                 " weights");
  }
  if (weights.empty()) return {};  // however many rows there are
  const std::size_t columns = weights.columns();
  return parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    std::vector<float> values;
    detail::load_padded(weights, row, 0, columns, values);
    if (grid.zero != 0) {
      for (float& value : values) value -= grid.zero;
    }
    detail::encode_weights<Format>(values, grid.scale, codes.subspan(row * columns, columns));
    return {};
  });
}

}  // namespace ecq
