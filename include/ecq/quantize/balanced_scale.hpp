#pragma once
/// \file
/// The arithmetic of EntQuant's root, one scale per group, which processors and devices share bit for bit.

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/quantize/regularizer.hpp"

namespace ecq::detail {

// Numbers that decide a scale reach the file, so they must not depend on whether the compiler fuses a product and a
// sum. In the quantize room no product feeds a sum unless it is exact: scales have few significant bits, and powers of
// a difference pass through a minimum. ECQ_EXACT_FLOAT guards against the rest (reassociation under fast-math).

/// Returns 2^exponent. Precondition: the result is a normal number.
ECQ_HOST_DEVICE constexpr float power_of_two(int exponent) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(exponent + 127) << 23);
}
ECQ_HOST_DEVICE constexpr double power_of_two_f64(int exponent) noexcept {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// Returns the exponent of a group whose largest |weight| is `largest`: weight = +-magnitude * 2^exponent, with
/// magnitudes below 4.
ECQ_HOST_DEVICE constexpr int exponent_of_group(float largest) noexcept {
  // Compare bits, since a subnormal number may compare as zero.
  const auto bits = __builtin_bit_cast(std::uint32_t, largest);
  if (bits - 1U >= 0x7f800000U) return 0;  // zero, negative or NaN
  const int biased = static_cast<int>(bits >> 23);
  return (biased < 1 ? 1 : biased > 253 ? 253 : biased) - 127;
}

/// Returns the number of 16 significant bits nearest to `scale`: its product with a code of at most 8 such bits is
/// exact. Precondition: `scale` is normal.
ECQ_HOST_DEVICE constexpr float with_short_significand(float scale) noexcept {
  return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, scale) + 0x80U) & 0xffffff00U);
}

/// Division as processors do it. Devices use their row_group instead, since nvcc may be told to divide approximately.
/// Under -freciprocal-math, clang would multiply by the reciprocal of a divisor known at compile time.
struct plain_arithmetic {
  [[gnu::noinline]] ECQ_EXACT_FLOAT ECQ_HOST_DEVICE static float divide(float a, float b) noexcept { return a / b; }
};

template <class Number>
ECQ_HOST_DEVICE constexpr Number bounded(Number value, Number least, Number most) noexcept {
  return value < least ? least : most < value ? most : value;
}

/// Sums over a group at one scale.
struct group_sums {
  double distortion = 0;  ///< sum |decoded - magnitude|^degree
  double kept = 0;        ///< sum of the magnitudes whose code is not zero

  ECQ_HOST_DEVICE group_sums& operator+=(const group_sums& other) noexcept {
    distortion += other.distortion;
    kept += other.kept;
    return *this;
  }
};

/// Order of summation of a row: tiles of 256 weights are summed in FP32 as 16 lanes each (weights l, l + 16, ...); lane
/// l of tile t goes to FP64 sum t % (sums / 16) * 16 + l, tiles ascending; then fold() adds up the sums. A device has
/// one thread for each of the row_sums().
inline constexpr std::uint32_t lanes_of_tile = 16;
inline constexpr std::uint32_t tile_weights = 256;
inline constexpr std::size_t fewest_row_sums = 32;
inline constexpr std::size_t most_row_sums = 256;
ECQ_HOST_DEVICE constexpr std::size_t row_sums(std::uint64_t columns) noexcept {
  return columns <= 4096 ? fewest_row_sums : most_row_sums;
}

/// Returns the sum of Count numbers, Count a power of two: the second half is added to the first, number by number,
/// until one number is left.
template <std::size_t Count, class Sum>
ECQ_HOST_DEVICE constexpr Sum fold(Sum* numbers) noexcept {
  if constexpr (Count > 1) {
    ECQ_UNROLL
    for (std::size_t i = 0; i < Count / 2; ++i) numbers[i] += numbers[i + Count / 2];
    return fold<Count / 2>(numbers);
  }
  return numbers[0];
}

/// Returns the sum of number(i) for i below `count`, one number for each group of a matrix. Number i goes to sum
/// i % 256, in ascending order; then fold() adds up the sums.
template <class NumberAt>
ECQ_EXACT_FLOAT double sum_over_groups(std::size_t count, const NumberAt& number) {
  ECQ_EXACT_FLOAT_BODY
  double sums[most_row_sums] = {};
  for (std::size_t i = 0; i < count; ++i) sums[i % most_row_sums] += number(i);
  return fold<most_row_sums>(sums);
}

/// Returns the biased exponent of `number`. Precondition: it is not negative.
ECQ_HOST_DEVICE constexpr std::uint32_t biased_exponent(double number) noexcept {
  return static_cast<std::uint32_t>(__builtin_bit_cast(std::uint64_t, number) >> 52);
}

/// Returns the most that the distortion of one group counts for in a matrix's total. Without this limit, one weight of
/// 1e16 would make all other rows worth nothing, and all their codes zero. `exponent` is the largest biased exponent
/// that the distortions of enough groups have or exceed (enough_for_balance()); the limit is 64 to 128 times what these
/// groups reach.
ECQ_HOST_DEVICE constexpr double balance_limit(std::uint32_t exponent) noexcept {
  const std::uint64_t raised = exponent < 2039 ? exponent + 7 : 2046;
  return __builtin_bit_cast(double, raised << 52);
}

/// Whether `above` of `all` groups that are not zero are enough for balance_limit(): more than an eighth and at least
/// two, or all if there are fewer than two.
template <class Count>
ECQ_HOST_DEVICE constexpr bool enough_for_balance(Count above, Count all) noexcept {
  return all < 2 ? above >= all : above >= 2 && 8 * above > all;
}

/// Returns balance_limit() for the distortions number(i), i below `count`.
template <class NumberAt>
double balance_limit_of(std::size_t count, const NumberAt& number) {
  std::array<std::size_t, 2048> with_exponent{};
  std::size_t all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (number(i) == 0.0) continue;
    ++with_exponent[biased_exponent(number(i))];
    ++all;
  }
  std::uint32_t exponent = 2047;
  for (std::size_t above = 0; exponent > 0 && !enough_for_balance(above, all);) above += with_exponent[--exponent];
  return balance_limit(exponent);
}

/// Returns 2 * tanh(ln(left / right) / 2), which is within [-2, 2], and about ln(left / right) where that is near 0.
/// Precondition: neither number is negative.
ECQ_HOST_DEVICE inline double imbalance(double left, double right) noexcept {
  const double ratio = left / right;
  if (!(ratio < 1e12)) return 2.0;
  return 2.0 * (ratio - 1.0) / (ratio + 1.0);
}

/// Returns value^(1 / degree) to about 1e-9, for 0 < value < infinity, by Newton's method from halved exponents.
ECQ_HOST_DEVICE constexpr double root_of(double value, int degree) noexcept {
  constexpr std::uint64_t one = __builtin_bit_cast(std::uint64_t, 1.0);
  const auto distance = static_cast<std::int64_t>(__builtin_bit_cast(std::uint64_t, value) - one);
  double root = __builtin_bit_cast(double, static_cast<std::uint64_t>(distance / degree) + one);
  for (int round = 0; round < 5; ++round) {
    double quotient = value;
    for (int factor = 1; factor < degree; ++factor) quotient /= root;
    root += (quotient - root) / degree;
  }
  return root;
}

/// Search for the root s of degree * distortion(s) * s = balance * kept(s), to about 0.2 %. The root has at most 16
/// significant bits. The caller evaluates the sums at scale() and hands them to take() until finished(); scale() is
/// then the root.
class balanced_scale_search {
 public:
  balanced_scale_search() = default;

  /// `start` is a guess at the root, `absmax` the scale at which saturation begins.
  ECQ_HOST_DEVICE balanced_scale_search(float start, float absmax, int degree, double balance) noexcept
      : scale_(with_short_significand(start < absmax ? absmax : start)),
        absmax_(absmax),
        degree_(degree),
        balance_(balance) {}

  ECQ_HOST_DEVICE bool finished() const noexcept { return finished_; }
  ECQ_HOST_DEVICE float scale() const noexcept { return scale_; }

  ECQ_EXACT_FLOAT ECQ_HOST_DEVICE void take(const group_sums& sums) noexcept {
    ECQ_EXACT_FLOAT_BODY
    constexpr double octave = 1.0 / 3.0;  // (1 + 1/3) / (1 - 1/3) = 2
    const double scale = static_cast<double>(scale_);
    const double excess = imbalance(degree_ * sums.distortion * scale, balance_ * sums.kept);
    if (excess == 0.0) return finish(scale_);
    (excess < 0.0 ? below_ : above_) = scale_;
    // With many small steps, the distortion grows as s^degree and the excess as (degree + 1) ln s.
    double slope = degree_ + 1.0;
    if (previous_ != 0.0F && previous_ != scale_) {
      const double previous = static_cast<double>(previous_);
      const double gap = 2.0 * (scale - previous) / (scale + previous);
      const double secant = (excess - previous_excess_) / gap;
      if (secant > 0.3 * slope && secant < 3.0 * slope) slope = secant;
    }
    const double half_step = bounded(excess / (2.0 * slope), -octave, octave);
    float next = with_short_significand(static_cast<float>(scale * ((1.0 - half_step) / (1.0 + half_step))));
    const bool close = half_step > -0x1p-10 && half_step < 0x1p-10;
    // Halving the interval would lead away from a root that is this near.
    if (!close && below_ != 0.0F && above_ != 0.0F && (round_ > 8 || next <= below_ || next >= above_)) {
      next = with_short_significand(0.5F * below_ + 0.5F * above_);  // exact; a quotient may not be
      if (next <= below_ || next >= above_ || above_ - below_ < below_ * 0x1p-9F) return finish(next);
    }
    if (next < absmax_ * 0x1p-4F) return finish(absmax_);
    previous_ = scale_;
    previous_excess_ = excess;
    scale_ = next;
    finished_ = ++round_ == 48 || close;
  }

 private:
  ECQ_HOST_DEVICE void finish(float scale) noexcept {
    scale_ = scale;
    finished_ = true;
  }

  float scale_ = 0.0F;
  float absmax_ = 0.0F;
  float below_ = 0.0F;  ///< largest scale known to be too fine
  float above_ = 0.0F;  ///< smallest scale known to be too coarse
  float previous_ = 0.0F;
  int degree_ = 1;
  int round_ = 0;
  bool finished_ = false;
  double balance_ = 0.0;
  double previous_excess_ = 0.0;
};

/// Returns the search for the scale of `size` weights whose normalised magnitudes add up to `magnitudes`; the largest
/// magnitude is `largest`, above 0.
template <class Format, class Arithmetic = plain_arithmetic>
ECQ_EXACT_FLOAT ECQ_HOST_DEVICE balanced_scale_search search_of_group(int degree, double balance, double magnitudes,
                                                                      std::uint64_t size, float largest) noexcept {
  ECQ_EXACT_FLOAT_BODY
  constexpr float finest = finest_step<Format>;
  // Mean |difference|^degree of a uniform quantiser of step 1.
  const double mean_error = 1.0 / (static_cast<double>(1 << degree) * (degree + 1));
  double start = balance * magnitudes / (degree * mean_error * static_cast<double>(size));
  for (int factor = 0; factor < degree; ++factor) start /= static_cast<double>(finest);
  const float absmax = Arithmetic::divide(largest, Format::largest);
  const float coarsest = 4.0F * Arithmetic::divide(largest, finest);  // all codes are zero
  start = bounded(root_of(start, degree + 1), static_cast<double>(absmax), static_cast<double>(coarsest));
  return {static_cast<float>(start), absmax, degree, balance};
}

}  // namespace ecq::detail
