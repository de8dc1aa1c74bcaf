#pragma once
/// \file
/// Codes of a matrix that lie on a trellis, and the bits that their indices cost.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/unbiased_error.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/stored_scale.hpp"
#include "ecq/quantize/tcq.hpp"
#include "ecq/quantize/trellis_indices.hpp"
#include "ecq/quantize/trellis_lanes.hpp"
#include "ecq/quantize/trellis_search.hpp"
#include "ecq/quantize/weights_extent.hpp"

namespace ecq::detail {

/// Cost of a bit, in squares of the step between codes.
inline constexpr float trellis_rate_weight = 0.4F;

/// Returns the steps between neighbouring codes at a lambda, within the bounds of stored scales: one per matrix or,
/// with `by_rows`, one per row. All steps are the same, except in rows that have a weight beyond the codes or factors
/// of their own. Errors: errc::non_finite. Precondition: there are as many row factors as rows, or none.
inline result<std::vector<float>> trellis_steps(const cpu& backend, const weights_view& weights, double lambda,
                                                const lambda_factors& factors, bool by_rows) {
  // Gaussian weights take 3 bits at steps of 0.254 of their standard deviation, and at EntQuant's lambda of 14.5.
  constexpr double rms_of_step = 0.0667;
  constexpr auto end = static_cast<double>(largest_path_code);
  constexpr auto greatest = static_cast<double>(static_cast<float>(largest_scale<int8>()));
  ECQ_TRY(extent, extent_of_weights(backend, weights));
  const auto step_for = [&](double largest, double factor) {
    const double usual = rms_of_step * std::sqrt(lambda_of(lambda, factor)) * extent.rms;
    const double step = (std::max)(usual, largest / end);
    return step == 0 ? 1.0F
                     : static_cast<float>(std::clamp(step, static_cast<double>(smallest_normal_float), greatest));
  };
  std::vector<float> steps;
  if (!by_rows) steps.push_back(step_for(extent.largest, factors.whole));
  if (by_rows) {
    for (std::size_t row = 0; row < weights.rows(); ++row) {
      steps.push_back(step_for(static_cast<double>(extent.largest_of_rows[row]),
                               factors.rows.empty() ? factors.whole : factors.rows[row]));
    }
  }
  return steps;
}

/// Writes a code for each weight, row-major. The first one is at `position` of the stream, where the lanes are in
/// `states`. Precondition: weights are finite.
inline result<void> find_trellis_codes(const cpu& backend, const trellis& walk, const path_costs& costs,
                                       const weights_view& weights, std::span<const float> steps,
                                       std::uint64_t position, const lane_states& states,
                                       std::span<std::uint8_t> codes) {
  const instruction_set isa = chosen_instruction_set(backend.isa);
  const std::uint64_t first_period = position >> walk.period_bits;
  const std::uint64_t end = position + weights.size();
  const std::uint64_t periods = ((end - 1) >> walk.period_bits) - first_period + 1;
  return parallel_for(
      backend, weights.empty() ? 0 : static_cast<std::size_t>(periods), [&](std::size_t index) -> result<void> {
        const std::uint64_t begin = (std::max)(position, (first_period + index) << walk.period_bits);
        const std::uint64_t behind = (std::min)(end, (first_period + index + 1) << walk.period_bits);
        const auto first = static_cast<std::size_t>(begin - position);
        std::vector<float> run(static_cast<std::size_t>(behind - begin));
        for (std::size_t at = 0; at < run.size();) {
          const std::size_t row = (first + at) / weights.columns(), column = (first + at) % weights.columns();
          const std::span part = std::span(run).subspan(at, (std::min)(weights.columns() - column, run.size() - at));
          weights.load(row, column, part);
          const float per_step = 1.0F / steps[steps.size() == 1 ? 0 : row];
          for (float& weight : part) weight *= per_step;
          at += part.size();
        }
        path_search search(walk, costs, isa);
        search.find(begin, run, begin == position ? states : lane_states{}, codes.subspan(first, run.size()));
        return {};
      });
}

/// Sets the scales, one for each step, to the step times the unbiased gain of the weights that the scale covers: a row,
/// or the whole matrix. The scale is 0 where all weights are 0 but some codes are not: paths that come from another
/// matrix may begin in the odd quantiser, which has no 0.
inline result<void> set_trellis_scales(const cpu& backend, const weights_view& weights,
                                       std::span<const std::uint8_t> codes, std::span<const float> steps,
                                       std::span<bf16> scales) {
  // Limited, because the gain of rows of which almost nothing is left would be large and poorly known.
  constexpr double greatest_gain = 2;
  const auto scale_of = [&](const unbiased_gain& gain, float step) {
    return stored_scale<int8>(static_cast<float>((std::min)(gain.value(), greatest_gain) * static_cast<double>(step)));
  };
  std::vector<unbiased_gain> rows(weights.rows());
  std::vector<std::uint8_t> blank(weights.rows());
  ECQ_CHECK(parallel_for(backend, rows.size(), [&](std::size_t row) -> result<void> {
    std::vector<float> before(weights.columns()), after(weights.columns());
    weights.load(row, 0, before);
    const auto made = codes.subspan(row * weights.columns(), weights.columns());
    std::transform(
        made.begin(), made.end(), after.begin(),
        [step = steps[steps.size() == 1 ? 0 : row]](std::uint8_t code) { return int8::decode(code) * step; });
    rows[row].add(before, after);
    // Weights above 0 whose squares are 0 do not occur: FP64 holds the square of any FP32.
    if (rows[row].square == 0 && std::any_of(made.begin(), made.end(), [](auto code) { return code != 0; })) {
      blank[row] = 1;
    }
    return {};
  }));
  if (scales.size() == rows.size()) {
    std::transform(rows.begin(), rows.end(), steps.begin(), scales.begin(), scale_of);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (blank[row] != 0) scales[row] = bf16(0.0F);
    }
    return {};
  }
  unbiased_gain whole;
  for (const unbiased_gain& row : rows) whole += row;
  const bool all_blank = whole.square == 0 && std::find(blank.begin(), blank.end(), 1) != blank.end();
  std::fill(scales.begin(), scales.end(), all_blank ? bf16(0.0F) : scale_of(whole, steps.front()));
  return {};
}

/// Returns the bits of indices that occur as often as `counts` says. Indices that do not occur take more bits than the
/// others.
inline index_bits bits_of_indices(std::span<const double, index_count> counts) {
  constexpr double unseen = 0.02;
  double total = 0;
  for (const double count : counts) total += count + unseen;
  index_bits bits{};
  for (std::size_t index = 0; index < bits.size(); ++index) {
    const double exact = std::log2(total / (counts[index] + unseen));
    bits[index] = static_cast<float>(std::round(exact * 256) / 256);  // so that the logarithms of all machines agree
  }
  return bits;
}

/// Returns the bits that indices are assumed to take while their frequencies are unknown.
inline index_bits usual_index_bits() {
  index_bits bits{};
  for (std::size_t number = 0; number < index_count; ++number) {
    bits[number] = 1.85F + 0.7F * std::fabs(static_cast<float>(number) + static_cast<float>(smallest_index) + 0.5F);
  }
  return bits;
}

/// Returns the bits that indices take in a model at a lambda. They are found by passes over `samples`, each with the
/// costs that result from the pass before. Rows have scales as `how` says.
inline result<index_bits> find_index_bits(const cpu& backend, const trellis& walk,
                                          std::span<const sampled_weights> samples, double lambda,
                                          const tcq& how = {}) {
  constexpr std::size_t most_weights = std::size_t{1} << 20;
  constexpr int passes = 4;
  std::size_t all = 0;
  for (const sampled_weights& sample : samples) all += sample.weights.size();
  struct part {
    weights_view weights;
    std::vector<float> steps;
    double stands_for;
  };
  std::vector<part> parts;
  for (const sampled_weights& sample : samples) {
    const std::size_t apart = (all + most_weights - 1) / most_weights;
    const weights_view some = sample.weights.every_row(apart);
    std::vector<double> of_rows;
    for (std::size_t row = 0; row < sample.row_factors.size(); row += apart) of_rows.push_back(sample.row_factors[row]);
    ECQ_TRY(steps,
            trellis_steps(backend, some, lambda, {sample.lambda_factor, of_rows}, how.has_scaled_rows(some.columns())));
    const double share = static_cast<double>(sample.weights.size()) / static_cast<double>(some.size());
    parts.push_back({some, std::move(steps), sample.stands_for * share});
  }
  index_bits bits = usual_index_bits();
  std::vector<std::uint8_t> codes;
  for (int pass = 0; pass < passes && !parts.empty(); ++pass) {
    const path_costs costs(bits, trellis_rate_weight);
    std::array<double, index_count> counts{};
    for (const part& each : parts) {
      codes.resize(each.weights.size());
      ECQ_CHECK(find_trellis_codes(backend, walk, costs, each.weights, each.steps, 0, {}, codes));
      ECQ_TRY(made, count_codes(backend, codes));
      const histogram indices = counts_of_indices(made);
      for (std::size_t number = 0; number < index_count; ++number) {
        const auto index = static_cast<std::uint8_t>(static_cast<int>(number) + smallest_index);
        counts[number] += static_cast<double>(indices.counts[index]) * each.stands_for;
      }
    }
    bits = bits_of_indices(counts);
  }
  return bits;
}

}  // namespace ecq::detail
