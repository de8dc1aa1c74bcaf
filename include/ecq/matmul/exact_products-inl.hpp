#pragma once
/// \file
/// Definition of the corrections that exact weights add to products, and of products with dense weights, for cases in
/// which sums of parts will not do.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/matmul/matmul_plan.hpp"

namespace ecq {

namespace detail {

/// Adds difference * activation to `to`. The result is the same with and without fused multiply-add instructions.
ECQ_EXACT_FLOAT inline void add_product(float& to, float difference, float activation) {
  ECQ_EXACT_FLOAT_BODY
  to += difference * activation;
}

}  // namespace detail

ECQ_INLINE result<void> matmul_plan::find_exact_terms(const cpu& backend) {
  std::size_t task = 0;
  for (std::size_t index = 0; index < parts_.size(); ++index) {
    const part& source = parts_[index];
    const packed_matrix& matrix = *source.matrix;
    const group_layout& layout = matrix.layout;
    const std::uint64_t before = std::uint64_t{source.first_row} * columns_;
    std::vector<std::uint8_t> codes;  // of some rows from `first` on
    std::size_t first = 0, count = 0;
    for (const auto& [position, weight] :
         exact_weights_in(matrix.exact, before, before + (source.end - source.begin))) {
      const auto row = static_cast<std::size_t>(position / columns_);
      const auto column = static_cast<std::size_t>(position % columns_);
      if (row >= first + count) {
        first = row;
        const auto rows = static_cast<std::size_t>((source.end - source.begin) / columns_);
        count = rows_decoded_together(source.first_row + rows - row);
        codes.resize(count * columns_);
        ECQ_CHECK(decoder_.decode_codes(backend, source.number, first, count, codes));
      }
      const std::size_t group =
          row / layout.rows_per_group * layout.groups_across() + column / layout.columns_per_group;
      const auto value = static_cast<double>(matrix.values_of_codes()[codes[(row - first) * columns_ + column]]);
      const auto scale = static_cast<double>(static_cast<float>(matrix.scales[group]));
      const double coded = value * scale + static_cast<double>(matrix.zero);
      const std::uint64_t element = source.begin + (position - before);
      while (tasks_[task].part != index || tasks_[task].end <= element) ++task;
      exact_.push_back({task, source.first_output + (row - source.first_row), column,
                        static_cast<float>(static_cast<double>(weight) - coded)});
    }
  }
  return {};
}

ECQ_INLINE result<void> matmul_plan::run_with_exact(instruction_set isa, std::size_t task, const matmul_input& x,
                                                    matrix_view<float> y, std::span<float> edges,
                                                    bool accumulate) const {
  const auto first = std::ranges::lower_bound(exact_, task, {}, &exact_term::task);
  const std::span<const exact_term> terms(first, std::ranges::upper_bound(exact_, task, {}, &exact_term::task));
  const task_range& range = tasks_[task];
  const part& source = parts_[range.part];
  const bool integers = takes_integers(source, x);
  const auto activation_of = [&](std::size_t b, std::size_t column) {
    return integers ? static_cast<float>(x.quantized_.row(b)[column] * x.quantized_.scales()[b]) : x.row(b)[column];
  };
  // The part that the weight of a code adds to a product cannot be taken back if an activation or the difference is not
  // finite.
  const auto takes_back = [&](const exact_term& term) {
    if (!fp32::is_finite(std::bit_cast<std::uint32_t>(term.difference))) return false;
    for (std::size_t b = 0; b < x.batch() && !integers; ++b) {
      if (!fp32::is_finite(std::bit_cast<std::uint32_t>(activation_of(b, term.column)))) return false;
    }
    return true;
  };
  if (!std::ranges::all_of(terms, takes_back)) return run_dense(isa, task, x, y, edges, accumulate);
  ECQ_CHECK(run_task(isa, task, x, y, edges, accumulate));
  const task_output to{task, x.batch(), y, edges, accumulate};
  for (const auto& [of_task, output, column, difference] : terms) {
    const std::uint64_t row_begin = source.begin + std::uint64_t{output - source.first_output} * columns_;
    const bool whole = row_begin >= range.begin && row_begin + columns_ <= range.end;
    const std::size_t edge = whole ? 2 : row_begin <= range.begin ? 0 : 1;
    for (std::size_t b = 0; b < x.batch(); ++b) {
      detail::add_product(to.at(output, edge, b), difference, activation_of(b, column));
    }
  }
  return {};
}

ECQ_INLINE bool matmul_plan::is_infinite_beside_zero_point(std::size_t task, const matmul_input& x) const noexcept {
  const part& source = parts_[tasks_[task].part];
  if (source.matrix->lossless() || source.matrix->zero == 0 || takes_integers(source, x)) return false;
  for (std::size_t b = 0; b < x.batch(); ++b) {
    const auto sum = static_cast<float>(x.sum(b, 0, columns_));
    if (!fp32::is_finite(std::bit_cast<std::uint32_t>(sum))) return true;
  }
  return false;
}

ECQ_INLINE std::size_t matmul_plan::rows_decoded_together(std::size_t most) const noexcept {
  return std::clamp<std::size_t>(static_cast<std::size_t>(decoder_.stream().chunk_symbols()) / columns_, 1, most);
}

/// Runs a task with dense weights, one row after another.
ECQ_INLINE result<void> matmul_plan::run_dense(instruction_set isa, std::size_t task, const matmul_input& x,
                                               matrix_view<float> y, std::span<float> edges, bool accumulate) const {
  const task_range& range = tasks_[task];
  const part& source = parts_[range.part];
  const task_output to{task, x.batch(), y, edges, accumulate};
  const std::size_t end = source.first_row + static_cast<std::size_t>((range.end - 1 - source.begin) / columns_) + 1;
  std::vector<float> weights;  // of some rows from `first` on
  std::size_t first = 0, count = 0;
  return for_each_segment(range, [&](const segment& at, std::uint64_t, std::size_t edge) -> result<void> {
    if (at.row >= first + count) {
      first = at.row;
      count = rows_decoded_together(end - first);
      weights.resize(count * columns_);
      ECQ_CHECK(
          decoder_.decode(cpu{.isa = isa}, source.number, first, matrix_view<float>(weights.data(), count, columns_)));
    }
    const float* const row = weights.data() + (at.row - first) * columns_ + at.first_column;
    for (std::size_t b = 0; b < x.batch(); ++b) {
      const float* const activations = x.row(b) + at.first_column;
      float sum = 0;
      for (std::size_t i = 0; i < at.columns; ++i) sum += row[i] * activations[i];
      to.put(at.output, edge, b, sum);
    }
    return {};
  });
}

}  // namespace ecq
