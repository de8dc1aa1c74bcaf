#pragma once
/// \file
/// Error of reconstructed weights, once each row has the gain that makes it unbiased.

#include <cmath>
#include <cstddef>
#include <span>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lane_sum.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// Gain g = <w,w> / <w,v> of weights w and their reconstruction v. With it, <w, gv> = <w,w>: on average, a product with
/// gv is then as large as one with w.
struct unbiased_gain {
  double square = 0;   ///< <w,w>
  double product = 0;  ///< <w,v>

  /// Adds more weights; pairs that are not finite are left out. Precondition: both spans have the same length.
  ECQ_EXACT_FLOAT void add(std::span<const float> original, std::span<const float> reconstructed) noexcept {
    ECQ_EXACT_FLOAT_BODY
    detail::lane_sum squares, products;
    constexpr std::size_t together = detail::lane_sum::parts;
    std::size_t index = 0;
    for (; index + together <= original.size(); index += together) {
      for (std::size_t i = 0; i < together; ++i) {
        add_pair(original[index + i], reconstructed[index + i], squares.part[i], products.part[i]);
      }
    }
    for (std::size_t i = 0; index < original.size(); ++i, ++index) {
      add_pair(original[index], reconstructed[index], squares.part[i], products.part[i]);
    }
    square += squares.total();
    product += products.total();
  }

  unbiased_gain& operator+=(const unbiased_gain& other) noexcept {
    square += other.square;
    product += other.product;
    return *this;
  }

  /// Returns the gain, or 1 unless it is finite and above 0, as for a row that became 0.
  double value() const noexcept {
    const double gain = square / product;
    return std::isfinite(gain) && gain > 0 ? gain : 1.0;
  }

 private:
  ECQ_EXACT_FLOAT static void add_pair(float original, float reconstructed, double& square, double& product) noexcept {
    ECQ_EXACT_FLOAT_BODY
    const bool finite = std::isfinite(original) && std::isfinite(reconstructed);
    const double weight = finite ? static_cast<double>(original) : 0;
    square += weight * weight;
    product += weight * (finite ? static_cast<double>(reconstructed) : 0);
  }
};

/// Returns the unbiased gain of a row.
inline double unbiased_gain_of(std::span<const float> original, std::span<const float> reconstructed) noexcept {
  unbiased_gain gain;
  gain.add(original, reconstructed);
  return gain.value();
}

/// Compares two matrices like measure_error(), but first multiplies each reconstructed row by its unbiased_gain and
/// rounds it to FP32. Coarse rates shrink weights; this measures the noise that comes on top of that. Equal matrices
/// have no error, and the result is the same for every thread count. Errors: errc::invalid_argument if the shapes
/// differ.
result<weight_error> measure_unbiased_error(const cpu& backend, weights_view original, weights_view reconstructed);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/unbiased_error-inl.hpp"
#endif
