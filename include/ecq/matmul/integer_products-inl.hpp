#pragma once
/// \file
/// Definition of products of codes that are integers with quantised activations.

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
#include "ecq/matmul/weight_tile.hpp"
#include "ecq/matmul/weight_tile_avx2.hpp"

namespace ecq {

ECQ_INLINE bool matmul_plan::takes_integers(const part& source, const matmul_input& x) noexcept {
  return !x.quantized_.empty() && !source.matrix->lossless() && is_integer(source.matrix->format);
}

template <activation Element>
result<void> matmul_plan::quantize(matrix_view<const Element> x, matmul_input& input) const {
  // With a row of padding for each row, sizes in bytes still fit.
  if (x.rows() > input.copy_.max_size() / (columns_ + 64)) {
    return error(errc::invalid_argument, x.rows(), " x ", columns_, " activations overflow 64 bits");
  }
  detail::quantized_activations rows;
  rows.resize(x.rows(), columns_);
  if (any_not_integers_) input.copy_.resize(x.rows() * columns_);
  input.rows_ = input.copy_.data();
  input.stride_ = columns_;
  std::vector<float> row(columns_);
  for (std::size_t b = 0; b < x.rows(); ++b) {
    detail::copy_row(x, b, row.data());
    rows.set_row(b, row.data());
    if (any_not_integers_) rows.dequantize_row(b, input.copy_.data() + b * columns_);
  }
  if (any_integers_) input.quantized_ = std::move(rows);
  return {};
}

ECQ_INLINE result<void> matmul_plan::integer_product(instruction_set isa, const part& source, const segment& at,
                                                     std::size_t rows, const stored_weights& codes,
                                                     const matmul_input& x, std::size_t first, std::size_t batch,
                                                     detail::row_tile& tile) const {
  constexpr std::size_t most_rows = detail::row_tile::most_integer_rows, most_batch = detail::row_tile::most_batch;
  const packed_matrix& matrix = *source.matrix;
  const group_layout& layout = matrix.layout;
  const detail::code_table& table = *values_[source.number];
  const bool checked = table.all_finite || codes.how != stored_as::elements;
  for (std::size_t row = 0; row < rows && first == 0 && !checked; ++row) {
    const std::byte* const of_row = codes.first + row * columns_;
    // Codes of uint4 are at most 15 if their union is.
    const std::byte all = std::accumulate(of_row, of_row + at.columns, std::byte{0}, std::bit_or<>());
    if (!table.is_finite(all)) ECQ_CHECK(check_codes(source, table, of_row, at.columns));
  }
  std::int32_t sums[most_rows][most_batch];
  double scaled[most_rows][most_batch];
  for (std::size_t row = 0; row < rows; ++row) std::fill_n(scaled[row], batch, 0.0);
  double activations[most_batch] = {};
  for (std::size_t done = 0; done < at.columns;) {
    // Columns that share a scale, as many as one sum takes.
    const std::size_t column = at.first_column + done;
    const std::size_t group = column / layout.columns_per_group;
    const std::size_t rest = (std::min)(at.columns - done, detail::most_integer_columns);
    const std::size_t count = (std::min)(rest, layout.columns_per_group - column % layout.columns_per_group);
    const stored_weights run = codes.behind(done);
    if (codes.how == stored_as::halves) {
#if ECQ_X86
      for (std::size_t row = 0; row < rows; ++row) std::fill_n(sums[row], batch, 0);
      detail::add_tile_products<detail::avx2::integer_tile_dots>(
          reinterpret_cast<const std::uint16_t*>(run.first), columns_,
          [](std::size_t) -> const bf16* { return nullptr; }, rows, x.quantized_.row_as_halves(first),
          x.quantized_.stride(), {column, count, columns_}, batch, sums[0], most_batch);
#endif
    } else {
      const bool is_signed = matrix.format == dtype::int8;
      detail::integer_products(detail::integer_kernels_of(isa),
                               {run.first, columns_, rows, count, is_signed, codes.how == stored_as::rounds},
                               x.quantized_, first, column, batch, sums[0], most_batch);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t group_row = (at.row + row) / layout.rows_per_group;
      const auto scale =
          static_cast<double>(static_cast<float>(matrix.scales[group_row * layout.groups_across() + group]));
      // A product of 31 and 8 bits is exact, and fused with the sum it is the same.
      for (std::size_t b = 0; b < batch; ++b) scaled[row][b] += scale * sums[row][b];
    }
    for (std::size_t b = 0; b < batch && matrix.zero != 0; ++b) {
      activations[b] += x.quantized_.sum(first + b, column, count);
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
