#pragma once
/// \file
/// Product that error feedback consists of: a panel of a square matrix times some rows of weights side by side.

#include <algorithm>
#include <cstddef>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/calibrated/panel_product_avx2.hpp"

namespace ecq::detail {

/// Number of columns of a panel.
inline constexpr std::size_t panel_columns = 64;
/// Number of rows of weights that lie side by side: the weights of one column follow one another.
inline constexpr std::size_t lanes_of_rows = 128;

/// Size of the part of a product that is computed in registers: tile[c * lanes_of_rows + r] -= sum over k of
/// panel[k * kernel_columns + c] * rows[k * kernel_rows + r].
inline constexpr std::size_t kernel_columns = 4;
template <class Value>
inline constexpr std::size_t kernel_rows = 64 / sizeof(Value);

template <class Value>
ECQ_EXACT_FLOAT inline void subtract_part(Value* tile, const Value* panel, const Value* rows, std::size_t count) {
  ECQ_EXACT_FLOAT_BODY
  constexpr std::size_t height = kernel_rows<Value>;
  Value sums[kernel_columns][height];
  for (std::size_t column = 0; column < kernel_columns; ++column) {
    std::copy_n(tile + column * lanes_of_rows, height, sums[column]);
  }
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t column = 0; column < kernel_columns; ++column) {
      const Value factor = panel[k * kernel_columns + column];
      for (std::size_t row = 0; row < height; ++row) sums[column][row] -= factor * rows[k * height + row];
    }
  }
  for (std::size_t column = 0; column < kernel_columns; ++column) {
    std::copy_n(sums[column], height, tile + column * lanes_of_rows);
  }
}

/// Computes tile[column][row] -= sum over k of panel[k][column] * rows[k][row], for all columns of a panel and all
/// lanes, in FP32 or FP64. panel[k][column] is at k * stride + column. Every sum is taken in the order of k, so neither
/// the instruction set nor the division of k into calls changes a bit.
template <class Value>
void subtract_products(Value* tile, const Value* panel, std::size_t stride, const Value* rows, std::size_t count,
                       instruction_set isa) {
  auto kernel = subtract_part<Value>;
#if ECQ_X86
  if (isa >= instruction_set::avx2) kernel = avx2::subtract_part<lanes_of_rows, Value>;
#else
  static_cast<void>(isa);
#endif
  // The kernel's input is copied so that it is contiguous: strides of powers of two would share few sets of the
  // first-level cache.
  constexpr std::size_t at_once = 1024 / sizeof(Value), height = kernel_rows<Value>;
  alignas(64) Value columns_of_panel[panel_columns * at_once];
  alignas(64) Value some_rows[height * at_once];
  for (std::size_t begin = 0; begin < count; begin += at_once) {
    const std::size_t some = (std::min)(at_once, count - begin);
    for (std::size_t k = 0; k < some; ++k) {
      for (std::size_t column = 0; column < panel_columns; column += kernel_columns) {
        std::copy_n(panel + (begin + k) * stride + column, kernel_columns,
                    columns_of_panel + column * at_once + k * kernel_columns);
      }
    }
    for (std::size_t row = 0; row < lanes_of_rows; row += height) {
      for (std::size_t k = 0; k < some; ++k) {
        std::copy_n(rows + (begin + k) * lanes_of_rows + row, height, some_rows + k * height);
      }
      for (std::size_t column = 0; column < panel_columns; column += kernel_columns) {
        kernel(tile + column * lanes_of_rows + row, columns_of_panel + column * at_once, some_rows, some);
      }
    }
  }
}

/// Like subtract_products() with a stride, for a panel whose rows follow one another.
template <class Value>
void subtract_products(Value* tile, const Value* panel, const Value* rows, std::size_t count, instruction_set isa) {
  subtract_products(tile, panel, panel_columns, rows, count, isa);
}

}  // namespace ecq::detail
