#pragma once
/// \file
/// Step of an evenly spaced grid, by the root of the mean square of a matrix's weights. Needs Eigen 3.3 (target
/// ecq::calibrated).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/uniform_format.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/weights_extent.hpp"

namespace ecq {

/// Quantiser that rounds to nearest, with one scale per matrix. Its steps are sqrt(lambda) times the root of the mean
/// square of the weights, times a constant with which a lambda gives about the same rate as in EntQuant. No weight lies
/// beyond the grid, so at lambda 0 the largest one is at its end (AbsMax).
struct step_by_rms {
  static constexpr std::string_view name = "step by rms";

  /// Gaussian weights take 3 bits at steps of 0.516 of their standard deviation, and at EntQuant's lambda of 14.5.
  static constexpr double rms_of_step = 0.1355;

  double lambda = 0;  ///< at least 0

  /// Returns the damping of moments (factor_options) for feedback at this step, as a share of the mean E[x^2]. A weight
  /// that compensates for others grows by s and then takes about s^2 / (2 ln 2 variance) bits more. At the rate at
  /// which steps trade bits for error, these bits are worth the error that s^2 (step^2 / 12) / variance of E[x^2] would
  /// be. The result is twice that, which was better for moments of few tokens. Without damping, channels far louder
  /// than the others push their errors to weights that then need many bits.
  double damping() const noexcept { return (std::min)(rms_of_step * rms_of_step * lambda / 6, 1.0); }

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return per_tensor{}.layout(rows, columns);
  }

  /// Returns the scale for `weights`, before it is rounded to a scale that can be stored.
  template <uniform_format Format>
  result<float> scale_of(const cpu& backend, const weights_view& weights) const {
    constexpr uniform_grid grid = uniform_grid_of<Format>;
    ECQ_TRY(extent, detail::extent_of_weights(backend, weights));
    const double step =
        extent.step(rms_of_step * std::sqrt(lambda), static_cast<double>((std::min)(grid.highest, -grid.lowest)));
    return static_cast<float>(step / static_cast<double>(grid.step));
  }

  /// Writes rows * columns codes, row-major, and one scale. Errors: those of error_feedback::quantize.
  template <uniform_format Format>
  result<void> quantize(const cpu& backend, weights_view weights, std::span<std::uint8_t> codes,
                        std::span<bf16> scales) const {
    ECQ_TRY(scale, scale_of<Format>(backend, weights));
    return error_feedback{.scale = scale}.quantize<Format>(backend, weights, codes, scales);
  }
};

static_assert(quantizer<step_by_rms, int8>);

}  // namespace ecq
