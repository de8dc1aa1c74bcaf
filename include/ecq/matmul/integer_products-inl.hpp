#pragma once
/// \file
/// Definition of products of integer codes with quantised activations.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/matmul/integer_dot.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/quantized_activations.hpp"
#include "ecq/matmul/stored_weights.hpp"
#include "ecq/matmul/tile_products_amx.hpp"

namespace ecq {

ECQ_INLINE bool matmul_plan::takes_integers(const part& source, const matmul_input& x) noexcept {
  return !x.quantized_.empty() && !source.matrix->lossless() && is_integer(source.matrix->format);
}

template <activation Element>
result<void> matmul_plan::quantize(matrix_view<const Element> x, matmul_input& input) const {
  // Counting 64 more columns per row, for padding, ensures that sizes in bytes fit as well.
  if (x.rows() > input.copy_.max_size() / (columns_ + 64)) {
    return error(errc::invalid_argument, x.rows(), " x ", columns_, " activations overflow 64 bits");
  }
  detail::quantized_activations rows;
  rows.resize(x.rows(), columns_);
  // Rows of weights whose exact weights lead beyond FP32 are multiplied as they decode (run_dense).
  const bool dequantize = any_not_integers_ || !exact_.empty();
  if (dequantize) input.copy_.resize(x.rows() * columns_);
  input.rows_ = input.copy_.data();
  input.stride_ = columns_;
  std::vector<float> row(columns_);
  for (std::size_t b = 0; b < x.rows(); ++b) {
    detail::copy_row(x, b, row.data());
    rows.set_row(b, row.data());
    if (dequantize) rows.dequantize_row(b, input.copy_.data() + b * columns_);
  }
  if (any_integers_) input.quantized_ = std::move(rows);
  return {};
}

namespace detail {

/// A run of integer codes in each of several rows.
struct integer_run {
  const std::byte* codes;
  stored_as how;
  bool is_signed;
  std::size_t stride;  ///< bytes from row to row
  std::size_t rows;
  std::size_t phase;    ///< number of the place where rows begin in a group, if codes are ordered
  std::size_t first;    ///< column of the first code; if codes are ordered, the column in ordered activations
  std::size_t count;    ///< number of codes in a row, at most most_integer_columns
  std::size_t column;   ///< first column that counts
  std::size_t columns;  ///< number of columns that count; activations are 0 for the others
};

#if ECQ_X86
/// Like sum_integers(), by AMX. Returns false if AMX does not take such a run.
inline bool sum_integers_by_tiles(const integer_run& run, const quantized_activations& x, std::size_t first,
                                  std::size_t batch, std::int32_t* sums, std::size_t stride) {
  const activation_tiles& tiles = x.tiles();
  const bool ordered = run.how != stored_as::elements;
  const bool in_order = ordered == (x.order() != integer_order::columns);
  constexpr std::size_t of_step = activation_tiles::row_bytes;
  const bool whole_steps =
      run.first % of_step == 0 && (run.count % of_step == 0 || run.first + run.count == x.columns());
  if (tiles.empty() || !in_order || !whole_steps || first % activation_tiles::rows_together != 0) return false;
  const amx::tile_operands operands = {run.codes, run.stride, tiles.at(run.phase, first, run.first / of_step),
                                       tiles.stride(), 1};
  const std::size_t steps = (run.count + of_step - 1) / of_step;
  const bool as_signed = run.is_signed && !ordered;
  amx::set_byte_products(as_signed, operands, run.rows, batch, steps, sums, stride);
  if (as_signed) return true;
  const integer_kernels& unsigned_ones = integer_kernels_by<avx512::integer_dots>;
  add_differences(unsigned_ones, run.is_signed, run.rows, x, first, run.column, run.columns, batch, sums, stride);
  return true;
}
#endif

/// Sets sums[row * stride + b] to the sum of the products of the run's codes with row first + b of the activations.
inline void sum_integers(instruction_set isa, const integer_run& run, const quantized_activations& x, std::size_t first,
                         std::size_t batch, std::int32_t* sums, std::size_t stride) {
  const bool ordered = run.how != stored_as::elements;
  const integer_code_rows codes = {run.codes, run.stride, run.rows, run.count, run.is_signed, ordered};
#if ECQ_X86
  if (run.how == stored_as::words) {
    return integer_sums(integer_kernels_by<avx2::word_dots, std::int16_t>, codes,
                        x.ordered_words(first, run.phase) + run.first, x.ordered_stride(), batch, sums, stride);
  }
  if (isa == instruction_set::avx512 && sum_integers_by_tiles(run, x, first, batch, sums, stride)) return;
#endif
  const integer_kernels& kernels = integer_kernels_of(isa);
  const std::int8_t* const rows = ordered ? x.ordered_bytes(first, run.phase) : x.row(first);
  integer_sums(kernels, codes, rows + run.first, ordered ? x.ordered_stride() : x.stride(), batch, sums, stride);
  add_differences(kernels, run.is_signed, run.rows, x, first, run.column, run.columns, batch, sums, stride);
}

}  // namespace detail

ECQ_INLINE result<void> matmul_plan::integer_product(instruction_set isa, const part& source, const segment& at,
                                                     std::size_t rows, const detail::stored_weights& codes,
                                                     const matmul_input& x, std::size_t first, std::size_t batch,
                                                     detail::row_tile& tile) const {
  constexpr std::size_t most_rows = detail::row_tile::most_integer_rows, most_batch = detail::row_tile::most_batch;
  const packed_matrix& matrix = *source.matrix;
  const group_layout& layout = matrix.layout;
  const detail::code_table& table = *values_[source.number];
  const bool checked = table.all_finite || codes.how != detail::stored_as::elements;
  for (std::size_t row = 0; row < rows && first == 0 && !checked; ++row) {
    const std::byte* const of_row = codes.first + row * columns_;
    // If the union of uint4 codes is at most 15, so is each of them.
    const std::byte all = std::accumulate(of_row, of_row + at.columns, std::byte{0}, std::bit_or<>());
    if (!table.is_finite(all)) ECQ_CHECK(check_codes(source, table, of_row, at.columns));
  }
  std::int32_t sums[most_rows][most_batch];
  double scaled[most_rows][most_batch];
  for (std::size_t row = 0; row < rows; ++row) std::fill_n(scaled[row], batch, 0.0);
  // Ordered codes are multiplied in whole groups. Rows that begin at the same place in a group are multiplied together.
  const bool ordered = codes.how != detail::stored_as::elements;
  const std::size_t group = ordered ? detail::group_of(fusion_) : 1;
  const std::size_t phases = ordered ? row_phases_ : 1;
  for (std::size_t begin_row = 0; begin_row < (std::min)(phases, rows); ++begin_row) {
    const std::size_t place = ordered ? place_of_row(source, at.row + begin_row) : 0;
    const std::size_t some_rows = (rows - begin_row - 1) / phases + 1;
    for (std::size_t done = 0; done < at.columns;) {
      // Takes columns that share a scale, no more than one sum may have.
      const std::size_t column = at.first_column + done;
      const std::size_t scale_group = column / layout.columns_per_group;
      const std::size_t before = (place + column) % group;  // weights of other rows in the first group
      const std::size_t rest = (std::min)(at.columns - done, detail::most_integer_columns - before);
      const std::size_t count = (std::min)(rest, layout.columns_per_group - column % layout.columns_per_group);
      const std::size_t from = begin_row * columns_ + done;
      const detail::integer_run run = {.codes = codes.first + from * codes.width - before * codes.width,
                                       .how = codes.how,
                                       .is_signed = matrix.format == dtype::int8,
                                       .stride = phases * columns_ * codes.width,
                                       .rows = some_rows,
                                       .phase = place / (group / phases),
                                       .first = place + column - before,
                                       .count = (before + count + group - 1) / group * group,
                                       .column = column,
                                       .columns = count};
      detail::sum_integers(isa, run, x.quantized_, first, batch, sums[begin_row], phases * most_batch);
      for (std::size_t row = begin_row; row < rows; row += phases) {
        const std::size_t group_row = (at.row + row) / layout.rows_per_group;
        const auto scale =
            static_cast<double>(static_cast<float>(matrix.scales[group_row * layout.groups_across() + scale_group]));
        // The product of a sum of 31 bits and a scale of 8 bits is exact, so fusing it with the addition changes
        // nothing.
        for (std::size_t b = 0; b < batch; ++b) scaled[row][b] += scale * sums[row][b];
      }
      done += count;
    }
  }
  double activations[most_batch] = {};
  for (std::size_t done = 0; done < at.columns && matrix.zero != 0;) {
    const std::size_t count = (std::min)(at.columns - done, detail::most_integer_columns);
    for (std::size_t b = 0; b < batch; ++b) {
      activations[b] += x.quantized_.sum(first + b, at.first_column + done, count);
    }
    done += count;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    detail::finish_products(scaled[row], static_cast<double>(matrix.zero), activations, x.quantized_.scales() + first,
                            batch, tile.sums[row]);
  }
  return {};
}

}  // namespace ecq
