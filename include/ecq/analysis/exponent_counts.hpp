#pragma once
/// \file
/// Counts of the exponents of weights, in the weights' own format and in another.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ecq/analysis/hadamard.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// Counts of the exponents floor(log2 |w|) of weights w of any format, subnormal ones included. Count the parts of a
/// tensor or of a model separately and add them up.
struct exponent_counts {
  /// Position f counts the weights that have exponent field f as FP32, that is exponent f - fp32_bias. Position 0
  /// counts zeros (and BF16 and FP32 weights below 2^-126), position 255 NaN and infinities.
  histogram fields;

  static constexpr int fp32_bias = 127;

  std::uint64_t weights() const noexcept { return fields.total(); }
  std::uint64_t zeros() const noexcept { return fields.counts[0]; }
  std::uint64_t non_finite() const noexcept { return fields.counts[255]; }

  /// Returns the number of weights whose exponent is `exponent`, -126 ... 127.
  std::uint64_t at(int exponent) const noexcept {
    const int field = exponent + fp32_bias;
    return fields.counts[static_cast<std::size_t>(field)];
  }

  /// Returns the histogram of the same weights' exponent fields in `format`, a floating-point format that holds the
  /// weights exactly. A lossless stream codes these fields. Subnormal weights join the zeros in field 0.
  histogram fields_in(dtype format) const noexcept;

  exponent_counts& operator+=(const exponent_counts& other) noexcept {
    fields += other.fields;
    return *this;
  }

  bool operator==(const exponent_counts&) const = default;
};

/// Returns the entropy of the counted weights' exponent fields in `format`, in bits per weight.
double exponent_entropy(const exponent_counts& counts, dtype format) noexcept;

/// Returns the bits that a weight of `format` takes if its exponent is coded at the entropy, and sign and mantissa stay
/// as they are (DFloat11, ECF8).
double lossless_bits(const exponent_counts& counts, dtype format) noexcept;

namespace detail {

inline constexpr std::size_t exponents_at_once = largest_hadamard_block;

/// Adds the exponent fields of `weights` to `counts`.
void add_exponents(std::span<const float> weights, histogram& counts) noexcept;

/// Calls `count(row, buffer, histogram)` for each row, on all threads; `buffer` is scratch memory for exponents_at_once
/// floats. Returns the sum of all histograms.
result<exponent_counts> count_rows(
    const cpu& backend, const weights_view& weights,
    const std::function<void(std::size_t row, std::span<float> buffer, histogram& counts)>& count);

}  // namespace detail

/// Counts the exponents of `weights` in their own format. Needs memory for a few thousand weights per thread, however
/// many weights there are.
result<exponent_counts> count_weight_exponents(const cpu& backend, weights_view weights);

/// Counts the exponents that `weights` would have in `Format` if each row were scaled so that its largest weight became
/// Format::largest (AbsMax). With `block` above 1, every `block` weights of a row go through a Hadamard transform
/// before the row is scaled. Precondition: `block` is a power of two that divides the columns, at most
/// largest_hadamard_block. Weights that are not finite are counted as such, with all of their block if it is
/// transformed. Needs memory for a few thousand weights per thread, however many weights there are.
template <number_format Format>
result<exponent_counts> count_scaled_exponents(const cpu& backend, weights_view weights, std::size_t block = 1) {
  return detail::count_rows(backend, weights, [&](std::size_t row, std::span<float> buffer, histogram& counts) {
    const auto for_each_piece = [&](auto&& use) {
      for (std::size_t column = 0; column < weights.columns(); column += buffer.size()) {
        const auto piece = buffer.first((std::min)(buffer.size(), weights.columns() - column));
        weights.load(row, column, piece);
        for (std::size_t at = 0; block > 1 && at < piece.size(); at += block) {
          hadamard_transform(piece.subspan(at, block));
        }
        use(piece);
      }
    };
    float largest = 0;
    for_each_piece([&](std::span<const float> piece) {
      for (const float value : piece) {
        if (std::fabs(value) > largest && std::isfinite(value)) largest = std::fabs(value);
      }
    });
    // In double, in which no quotient of two FP32 numbers overflows.
    const double scale = largest > 0 ? static_cast<double>(Format::largest) / static_cast<double>(largest) : 1.0;
    for_each_piece([&](std::span<float> piece) {
      for (float& value : piece) {
        if (!std::isfinite(value)) continue;
        value = Format::decode(Format::encode(static_cast<float>(static_cast<double>(value) * scale)));
      }
      detail::add_exponents(piece, counts);
    });
  });
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/exponent_counts-inl.hpp"
#endif
