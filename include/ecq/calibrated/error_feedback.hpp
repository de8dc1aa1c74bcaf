#pragma once
/// \file
/// Error feedback: each weight compensates for the errors of the weights quantised before it, as far as the inputs of
/// the layer allow (GPTQ, LDLQ). Needs Eigen 3.3 (target ecq::calibrated).

#include <algorithm>
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
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/input_factor.hpp"
#include "ecq/calibrated/panel_product.hpp"
#include "ecq/calibrated/uniform_format.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// Quantiser of one matrix on an evenly spaced grid, with one scale. Without an input, it rounds to nearest. Weights
/// beyond the grid take the levels at its ends; the resulting error is treated like any other.
struct error_feedback {
  static constexpr std::string_view name = "error feedback";

  const input_factor* input = nullptr;  ///< factor of the matrix's inputs, which outlives this; null: no feedback
  float scale = 1;                      ///< rounded to a scale that can be stored (stored_scale)
  /// Share of the correction for matrices upstream (input_factor::load_targets), 0 to 1. The full correction fits the
  /// tokens of the calibration too closely.
  double correction = 0.75;

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return per_tensor{}.layout(rows, columns);
  }

  /// Returns the number that a matrix of an affine format adds to code * scale; 0 for other formats.
  template <uniform_format Format>
  static constexpr float zero_of(bf16 stored) noexcept {
    return -uniform_grid_of<Format>.middle * static_cast<float>(stored);
  }

  /// Writes rows * columns codes, row-major, and one scale (none without weights); weight = decode(code) * scale +
  /// zero_of(scale). Errors: errc::invalid_argument for spans of another size, inputs of another width than the rows,
  /// and options out of range; errc::non_finite for NaN or infinity among the weights, and for weights so large that
  /// feedback leads beyond FP32. Needs memory for 128 rows per thread, 8 bytes per weight.
  template <class Format>
  result<void> quantize(const cpu& backend, weights_view weights, std::span<std::uint8_t> codes,
                        std::span<bf16> scales) const {
    static_assert(uniform_format<Format>,
                  "error_feedback: the values of Format are not evenly spaced (ecq/calibrated/uniform_format.hpp)");
    if constexpr (uniform_format<Format>) {  // otherwise the line above is the only error
      const bf16 stored = stored_scale<Format>(scale);
      ECQ_CHECK(quantize(backend, weights, uniform_grid_of<Format>, stored, codes, scales.size()));
      std::fill(scales.begin(), scales.end(), stored);
    }
    return {};
  }

 private:
  result<void> quantize(const cpu& backend, const weights_view& weights, const uniform_grid& grid, float stored,
                        std::span<std::uint8_t> codes, std::size_t scales) const;
};

namespace detail {

/// Rounds the columns of a panel one after another. `tile` holds the values that the weights should be near, before
/// feedback from the panel's own columns; `weights` become q - w; `levels` has room for a panel. Returns false for
/// values beyond FP32.
ECQ_EXACT_FLOAT inline bool round_panel(const uniform_grid& grid, float scale, std::size_t columns,
                                        const float* coefficients, float* tile, float* weights, std::int16_t* levels) {
  ECQ_EXACT_FLOAT_BODY
  constexpr float pushed = 0x1.8p23F;  // adding it leaves an integer in the low bits of the sum
  const float step = grid.step * scale;
  const float inverse = 1.0F / scale;
  const float per_step = 1.0F / grid.step;
  const auto lowest = static_cast<float>(grid.lowest), highest = static_cast<float>(grid.highest);
  bool finite = true;
  for (std::size_t column = 0; column < columns; ++column) {
    float* const target = tile + column * lanes_of_rows;
    float* const weight = weights + column * lanes_of_rows;
    std::int16_t* const level = levels + column * lanes_of_rows;
    for (std::size_t row = 0; row < lanes_of_rows; ++row) {
      finite &= (std::bit_cast<std::uint32_t>(target[row]) & 0x7f800000U) != 0x7f800000U;
      float exact = target[row] * inverse * per_step;
      exact = exact > lowest ? exact : lowest;
      exact = exact < highest ? exact : highest;
      const float sum = exact + pushed;
      const float nearest = sum - pushed;
      level[row] = static_cast<std::int16_t>(std::bit_cast<std::int32_t>(sum) - std::bit_cast<std::int32_t>(pushed));
      weight[row] = nearest * step - weight[row];
    }
    for (std::size_t later = column + 1; coefficients != nullptr && later < columns; ++later) {
      const float factor = coefficients[column * panel_columns + later];
      float* const to = tile + later * lanes_of_rows;
      for (std::size_t row = 0; row < lanes_of_rows; ++row) to[row] -= factor * weight[row];
    }
  }
  return finite;
}

/// Loads up to lanes_of_rows rows side by side, weight (row, column) at column * lanes_of_rows + row. Other elements
/// stay as they are.
inline result<void> load_side_by_side(const weights_view& weights, std::size_t first_row, std::size_t rows,
                                      std::vector<float>& side_by_side) {
  std::vector<float> values(weights.columns());
  for (std::size_t row = 0; row < rows; ++row) {
    weights.load(first_row + row, 0, values);
    ECQ_CHECK(check_finite(values, first_row + row));
    for (std::size_t column = 0; column < values.size(); ++column) {
      side_by_side[column * lanes_of_rows + row] = values[column];
    }
  }
  return {};
}

}  // namespace detail

inline result<void> error_feedback::quantize(const cpu& backend, const weights_view& weights, const uniform_grid& grid,
                                             float stored, std::span<std::uint8_t> codes, std::size_t scales) const {
  using detail::lanes_of_rows, detail::panel_columns;
  const std::size_t columns = weights.columns();
  if (codes.size() != weights.size() || scales != layout(weights.rows(), columns).count()) {
    return error(errc::invalid_argument, "output has room for ", codes.size(), " codes and ", scales,
                 " scales, not for those of ", weights.rows(), " x ", columns, " weights");
  }
  if (!(correction >= 0) || !(correction <= 1)) {
    return error(errc::invalid_argument, "correction is ", correction, ", not from 0 to 1");
  }
  if (weights.empty()) return {};
  if (input != nullptr && input->width() != columns) {
    return error(errc::invalid_argument, "inputs have ", input->width(), " columns, but weights are ", weights.rows(),
                 " x ", columns);
  }
  const auto isa = chosen_instruction_set(backend.isa);
  const std::size_t panels = (columns + panel_columns - 1) / panel_columns;
  return parallel_for(backend, (weights.rows() + lanes_of_rows - 1) / lanes_of_rows,
                      [&](std::size_t block) -> result<void> {
                        const std::size_t first_row = block * lanes_of_rows;
                        const std::size_t rows = (std::min)(lanes_of_rows, weights.rows() - first_row);
                        std::vector<float> side_by_side(panels * panel_columns * lanes_of_rows);
                        ECQ_CHECK(detail::load_side_by_side(weights, first_row, rows, side_by_side));
                        std::vector<float> errors = side_by_side;  // q - w in the panels already quantised
                        std::vector<float> tile(panel_columns * lanes_of_rows);
                        std::vector<std::int16_t> levels(tile.size());
                        for (std::size_t panel = 0; panel < panels; ++panel) {
                          const std::size_t first = panel * panel_columns;
                          const std::size_t some = (std::min)(panel_columns, columns - first);
                          const float* own = nullptr;
                          if (input == nullptr) {
                            std::copy_n(&errors[first * lanes_of_rows], tile.size(), tile.begin());
                          } else {
                            input->load_targets(panel, correction, side_by_side.data(), tile.data(), isa);
                            const float* const feedback = input->feedback_of_panel(panel).data();
                            detail::subtract_products(tile.data(), feedback, errors.data(), first, isa);
                            own = feedback + first * panel_columns;
                          }
                          if (!detail::round_panel(grid, stored, some, own, tile.data(), &errors[first * lanes_of_rows],
                                                   levels.data())) {
                            return error(errc::non_finite, "feedback to rows ", first_row, " to ", first_row + rows - 1,
                                         ", columns ", first, " to ", first + some - 1, " overflows FP32");
                          }
                          for (std::size_t row = 0; row < rows; ++row) {
                            for (std::size_t at = 0; at < some; ++at) {
                              codes[(first_row + row) * columns + first + at] =
                                  grid.codes[static_cast<std::size_t>(levels[at * lanes_of_rows + row] - grid.lowest)];
                            }
                          }
                        }
                        return {};
                      });
}

static_assert(quantizer<error_feedback, int8> && quantizer<error_feedback, uint8>);

}  // namespace ecq
