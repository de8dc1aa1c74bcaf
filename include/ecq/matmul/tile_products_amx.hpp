#pragma once
/// \file
/// Products of rows of weights with rows of activations by AMX. Weights are read as they were decoded, 16 rows in a
/// register. Only activations (activation_tiles) are in the order that the unit requires of one operand, with pairs of
/// columns side by side.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <cstddef>
#include <cstdint>

#include "ecq/format/bf16.hpp"
#include "ecq/matmul/activation_tiles.hpp"
#include "ecq/matmul/weight_tile.hpp"

namespace ecq::detail::amx {

/// Number of BF16 values of a row of weights in a step of activation_tiles::row_bytes.
inline constexpr std::size_t halves_of_step = activation_tiles::row_bytes / sizeof(std::uint16_t);

/// Maximum number of rows of weights, and of rows of activations, that registers hold together.
inline constexpr std::size_t rows_together = 2 * activation_tiles::rows_together;

/// Beginnings of the operands of products.
struct tile_operands {
  const std::byte* weights;   ///< first row
  std::size_t weight_stride;  ///< bytes from row to row
  const std::uint32_t* x;     ///< tiles of the first rows
  std::size_t x_stride;       ///< words to the tiles of the next rows
  std::size_t parts;          ///< parts of activations: 1, or parts_of_fp32

  /// Returns the operands that begin `row` rows of weights, `b` rows of activations (a multiple of 16) and `step` steps
  /// further on.
  tile_operands behind(std::size_t row, std::size_t b, std::size_t step) const {
    return {weights + row * weight_stride + step * activation_tiles::row_bytes, weight_stride,
            x + b / activation_tiles::rows_together * x_stride + step * parts * activation_tiles::tile_words, x_stride,
            parts};
  }
};

/// Sets sums[row * stride + b] to the sum of the products of row `row` of weights and row `b` of activations over
/// `steps` steps of BF16. Subnormal numbers, and parts that are subnormal, count as 0.
void set_half_products(const tile_operands& of, std::size_t rows, std::size_t batch, std::size_t steps, float* sums,
                       std::size_t stride);

/// Like set_half_products(), for 8-bit weights, signed or not, and signed 8-bit activations in one part.
void set_byte_products(bool is_signed, const tile_operands& of, std::size_t rows, std::size_t batch, std::size_t steps,
                       std::int32_t* sums, std::size_t stride);

/// sums[row * stride + b] += the sum of weight (row, column) * scale (row, column) * x (b, column) over `columns`, for
/// BF16 and up to rows_together rows. `of` begins with the first of `columns`. `scales[row]` are the scales of a row
/// (matmul/weight_tile.hpp).
void add_scaled_products(const tile_operands& of, const bf16* const* scales, std::size_t rows, std::size_t batch,
                         const column_range& columns, float* sums, std::size_t stride);

}  // namespace ecq::detail::amx

#if ECQ_HEADER_ONLY
#include "ecq/matmul/tile_products_amx-inl.hpp"
#endif

#endif
