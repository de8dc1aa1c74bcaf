#pragma once
/// \file
/// Definition of HQQ.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/hqq.hpp"

namespace ecq {
namespace detail {

inline float bounded_zero(double zero) noexcept {
  constexpr auto largest = static_cast<double>(fp16::largest);
  return static_cast<float>((std::min)((std::max)(zero, -largest), largest));
}

ECQ_EXACT_FLOAT ECQ_INLINE hqq_group start_group(int bits, std::span<const float> weights) noexcept {
  ECQ_EXACT_FLOAT_BODY
  float least = weights[0];
  float most = weights[0];
  for (const float weight : weights) {
    least = (std::min)(least, weight);
    most = (std::max)(most, weight);
  }
  const double range = static_cast<double>(most) - static_cast<double>(least);
  const double levels = (1 << bits) - 1;
  double inverse = static_cast<double>(hqq::largest_inverse_scale);
  if (range > 0) inverse = (std::min)(inverse, levels / range);
  const double offset = std::fabs(static_cast<double>(least));
  constexpr auto largest = static_cast<double>(fp16::largest);
  if (offset > 0) inverse = (std::min)(inverse, largest / offset);
  inverse = (std::max)(inverse, 1 / largest);
  hqq_group group;
  group.inverse_scale = static_cast<float>(inverse);
  group.zero = bounded_zero(-static_cast<double>(least) * inverse);
  if (bits == 4) group.zero = nearest_integer(group.zero);
  return group;
}

ECQ_EXACT_FLOAT ECQ_INLINE float hqq_code(const hqq_group& group, float levels, float weight) noexcept {
  ECQ_EXACT_FLOAT_BODY
  return nearest_integer((std::min)((std::max)(weight * group.inverse_scale + group.zero, 0.0F), levels));
}

/// Makes one half-quadratic step: moves the zero point of `group` and returns sum |w - w^| from before the step.
ECQ_EXACT_FLOAT inline double improve_group(int bits, std::span<const float> weights, hqq_group& group) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const auto levels = static_cast<float>((1 << bits) - 1);
  // |e| - |e|^(p-1) / beta is positive only beyond beta^(-1/(2-p)), a little more than this threshold, so most errors
  // need no power.
  constexpr float threshold = 0.17F;
  const float scale = 1 / group.inverse_scale;
  double error_sum = 0;
  double zero_sum = 0;
  for (const float weight : weights) {
    const float code = hqq_code(group, levels, weight);
    const float difference = weight - (code - group.zero) * scale;
    const float magnitude = std::fabs(difference);
    float kept = 0;
    if (magnitude > threshold) {
      kept = std::copysign((std::max)(0.0F, magnitude - std::pow(magnitude, hqq::norm - 1) / hqq::beta), difference);
    }
    error_sum += static_cast<double>(magnitude);
    zero_sum += static_cast<double>(code - (weight - kept) * group.inverse_scale);
  }
  group.zero = bounded_zero(zero_sum / static_cast<double>(weights.size()));
  return error_sum;
}

/// Rounds scale and zero point to their stored values and gives each weight its code on that grid.
ECQ_EXACT_FLOAT inline void finish_group(int bits, const hqq_group& found, std::span<float> weights,
                                         std::uint8_t* codes) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const auto levels = static_cast<float>((1 << bits) - 1);
  const float scale = fp16((std::min)(1 / found.inverse_scale, fp16::largest));
  const float zero = fp16(found.zero);
  const hqq_group stored{1 / scale, zero};
  for (std::size_t index = 0; index < weights.size(); ++index) {
    const float code = hqq_code(stored, levels, weights[index]);
    codes[index] = static_cast<std::uint8_t>(code);
    weights[index] = (code - zero) * scale;
  }
}

}  // namespace detail

ECQ_INLINE result<baseline_result> hqq::apply(const cpu& backend, weights_view weights) const {
  ECQ_CHECK(detail::check_bits(name, bits));
  if (group_size == 0) return error(errc::invalid_argument, "hqq needs groups of at least 1 weight, not 0");
  ECQ_TRY(rounded, detail::load_for_baseline(backend, weights));
  if (weights.empty()) return std::move(rounded);
  const group_layout layout = per_group{group_size}.layout(weights.rows(), weights.columns());
  std::vector<detail::hqq_group> groups;
  std::vector<double> row_errors;
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for ", layout.count(), " groups"); };
  ECQ_CHECK(detail::or_out_of_memory(failed, [&]() -> result<void> {
    groups.resize(layout.count());
    row_errors.resize(layout.rows);
    return {};
  }));
  // Calls visit(row, group, first weight, length) for every group, rows in parallel.
  const auto for_groups = [&](auto&& visit) {
    return parallel_for(backend, layout.rows, [&](std::size_t row) -> result<void> {
      for (std::size_t across = 0; across < layout.groups_across(); ++across) {
        const std::size_t column = across * group_size;
        visit(row, groups[row * layout.groups_across() + across], row * layout.columns + column,
              (std::min)(group_size, layout.columns - column));
      }
      return {};
    });
  };
  const std::span<float> values(rounded.weights);
  ECQ_CHECK(for_groups([&](std::size_t, detail::hqq_group& group, std::size_t first, std::size_t length) {
    group = detail::start_group(bits, values.subspan(first, length));
  }));
  double least_error = std::numeric_limits<double>::infinity();
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::fill(row_errors.begin(), row_errors.end(), 0.0);
    ECQ_CHECK(for_groups([&](std::size_t row, detail::hqq_group& group, std::size_t first, std::size_t length) {
      row_errors[row] += detail::improve_group(bits, values.subspan(first, length), group);
    }));
    double error_sum = 0;
    for (const double row_error : row_errors) error_sum += row_error;
    if (!(error_sum < least_error)) break;
    least_error = error_sum;
  }
  ECQ_CHECK(for_groups([&](std::size_t, const detail::hqq_group& group, std::size_t first, std::size_t length) {
    detail::finish_group(bits, group, values.subspan(first, length), rounded.codes.data() + first);
  }));
  rounded.bits_per_weight =
      bits + 2.0 * fp16::bits_per_code * static_cast<double>(layout.count()) / static_cast<double>(values.size());
  return std::move(rounded);
}

}  // namespace ecq
