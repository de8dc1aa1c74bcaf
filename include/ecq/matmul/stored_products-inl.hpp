#pragma once
/// \file
/// Definition of products with weights whose codes are in memory.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/config.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/stored_weights.hpp"
#include "ecq/packed_check.hpp"

namespace ecq {

namespace detail {

/// Converts lossless weights of two or four bytes to FP32.
inline void convert_weights(dtype format, const std::byte* elements, std::size_t count, float* values) {
  if (format == dtype::fp32) {
    std::memcpy(values, elements, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, elements + 2 * i, sizeof bits);
    values[i] = format == dtype::bf16 ? std::bit_cast<float>(std::uint32_t{bits} << 16) : fp16::decode(bits);
  }
}

}  // namespace detail

ECQ_INLINE result<void> matmul_plan::product(instruction_set isa, const part& source, const segment& at,
                                             std::size_t rows, const detail::stored_weights& weights,
                                             const matmul_input& x, std::size_t first, std::size_t batch,
                                             detail::row_tile& tile) const {
  if (takes_integers(source, x)) return integer_product(isa, source, at, rows, weights, x, first, batch, tile);
  const packed_matrix& matrix = *source.matrix;
  const detail::code_table* const table = values_[source.number].get();
  const std::size_t width = decoder_.stream().element_bytes();
  const std::size_t of_scale = columns_of_scale(matrix);
  float scaled[detail::row_tile::most_rows][detail::row_tile::most_batch] = {};
  for (std::size_t done = 0; done < at.columns;) {
    // Columns that share a scale.
    const std::size_t column = at.first_column + done;
    const std::size_t count = (std::min)(at.columns - done, of_scale - column % of_scale);
    const std::byte* const run = weights.first + done * width;
    add_run(isa, matrix, table, rows, run, x.row(first) + column, x.stride(), count, batch, tile);
    for (std::size_t row = 0; row < rows; ++row) {
      const bf16* const scales = scales_of(matrix, at.row + row);
      const float scale = scales == nullptr ? 1 : static_cast<float>(scales[column / of_scale]);
      bool finite = true;
      for (std::size_t b = 0; b < batch; ++b) {
        finite = finite && fp32::is_finite(std::bit_cast<std::uint32_t>(tile.sums[row][b]));
        scaled[row][b] += tile.sums[row][b] * scale;
        if (matrix.zero == 0) continue;
        scaled[row][b] += static_cast<float>(static_cast<double>(matrix.zero) * x.sum(first + b, column, count));
      }
      if (finite || matrix.lossless() || table->all_finite) continue;
      ECQ_CHECK(check_codes(source, *table, run + row * columns_, count));
    }
    done += count;
  }
  for (std::size_t row = 0; row < rows; ++row) std::copy_n(scaled[row], batch, tile.sums[row]);
  return {};
}

ECQ_INLINE void matmul_plan::add_run(instruction_set isa, const packed_matrix& matrix, const detail::code_table* table,
                                     std::size_t rows, const std::byte* run, const float* x, std::size_t stride,
                                     std::size_t count, std::size_t batch, detail::row_tile& tile) const {
  const std::size_t width = decoder_.stream().element_bytes();
  std::size_t done = 0;
  for (std::size_t row = 0; row < rows; ++row) std::fill_n(tile.sums[row], batch, 0.0F);
  if (batch == 1 && table != nullptr) {
    done = detail::codes_without_tile(*table, count, isa);
    for (std::size_t row = 0; row < rows && done != 0; ++row) {
      tile.sums[row][0] = detail::dot_codes(*table, run + row * columns_, x, done);
    }
  }
  for (; done < count; done += detail::weights_per_tile) {
    const std::size_t some = (std::min)(detail::weights_per_tile, count - done);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::byte* const from = run + (row * columns_ + done) * width;
      if (table != nullptr) {
        detail::look_up(*table, from, some, tile.weights[row], isa);
      } else {
        detail::convert_weights(matrix.format, from, some, tile.weights[row]);
      }
    }
    detail::add_products(tile, rows, x + done, stride, some, batch, isa);
  }
}

/// Checks that all codes are finite numbers. Activations may have made a product infinite or NaN; a code must not.
ECQ_INLINE result<void> matmul_plan::check_codes(const part& source, const detail::code_table& table,
                                                 const std::byte* codes, std::size_t count) {
  const bool finite = std::all_of(codes, codes + count, [&](std::byte code) { return table.is_finite(code); });
  if (finite) return {};
  return error(errc::corrupt, detail::label_of(*source.matrix, source.number), ": a code is not a finite ",
               to_string(source.matrix->format));
}

}  // namespace ecq
