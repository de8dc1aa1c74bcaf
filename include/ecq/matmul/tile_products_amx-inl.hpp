#pragma once
/// \file
/// Definition of products by AMX.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/format/bf16.hpp"
#include "ecq/matmul/activation_tiles.hpp"
#include "ecq/matmul/scaled_sums_avx512.hpp"
#include "ecq/matmul/tile_products_amx.hpp"
#include "ecq/matmul/tile_registers_amx.hpp"
#include "ecq/matmul/weight_tile.hpp"

namespace ecq::detail::amx {

static_assert(activation_tiles::rows_together == tile_rows && activation_tiles::row_bytes == tile_row_bytes);

/// AMX registers with the shapes for a number of rows of weights and of activations. Registers 0 to 3 hold sums, 4 and
/// 5 weights, 6 and 7 activations.
class shaped_registers {
 public:
  shaped_registers() = default;
  shaped_registers(const shaped_registers&) = delete;
  shaped_registers& operator=(const shaped_registers&) = delete;
  ~shaped_registers() { release(); }

  /// Shapes the registers for `rows` rows of weights, `step_bytes` bytes of each at a time, and `batch` rows of
  /// activations.
  ECQ_AMX void set(std::size_t rows, std::size_t batch, std::size_t step_bytes) {
    if (rows == rows_ && batch == batch_ && step_bytes == step_bytes_) return;
    rows_ = rows;
    batch_ = batch;
    step_bytes_ = step_bytes;
    tile_shapes shapes;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t of_weights = of_tile(rows, i), of_x = of_tile(batch, i);
      if (of_weights != 0) shapes.set(4 + i, of_weights, step_bytes);
      if (of_x != 0) shapes.set(6 + i, step_bytes / sizeof(float), of_x * sizeof(float));
      for (std::size_t j = 0; j < 2; ++j) {
        const std::size_t of_sums = of_tile(batch, j);
        if (of_weights != 0 && of_sums != 0) shapes.set(2 * i + j, of_weights, of_sums * sizeof(float));
      }
    }
    configure(shapes);
  }

 private:
  /// Returns how many of `rows` rows the first or the second tile has.
  static std::size_t of_tile(std::size_t rows, std::size_t tile) {
    return tile == 0 ? (std::min)(rows, tile_rows) : rows - (std::min)(rows, tile_rows);
  }

  std::size_t rows_ = 0;
  std::size_t batch_ = 0;
  std::size_t step_bytes_ = 0;
};

/// Sets the sums of `Rows` by `Batch` tiles to the products of `steps` steps. The stride of sums is in bytes.
template <class Products, std::size_t Parts, std::size_t Rows, std::size_t Batch>
ECQ_AMX void set_tiles(tile_operands of, std::size_t steps, std::byte* sums, std::size_t stride) {
  set_zero<0>();
  if constexpr (Batch == 2) set_zero<1>();
  if constexpr (Rows == 2) set_zero<2>();
  if constexpr (Rows == 2 && Batch == 2) set_zero<3>();
  for (; steps != 0; --steps) {
    load<4>(of.weights, of.weight_stride);
    if constexpr (Rows == 2) load<5>(of.weights + tile_rows * of.weight_stride, of.weight_stride);
    for (std::size_t part = 0; part < Parts; ++part) {
      load<6>(of.x, tile_row_bytes);
      Products::template add<0, 4, 6>();
      if constexpr (Rows == 2) Products::template add<2, 5, 6>();
      if constexpr (Batch == 2) {
        load<7>(of.x + of.x_stride, tile_row_bytes);
        Products::template add<1, 4, 7>();
        if constexpr (Rows == 2) Products::template add<3, 5, 7>();
      }
      of.x += activation_tiles::tile_words;
    }
    of.weights += tile_row_bytes;
  }
  store<0>(sums, stride);
  if constexpr (Batch == 2) store<1>(sums + tile_row_bytes, stride);
  if constexpr (Rows == 2) store<2>(sums + tile_rows * stride, stride);
  if constexpr (Rows == 2 && Batch == 2) store<3>(sums + tile_rows * stride + tile_row_bytes, stride);
}

/// Like set_tiles(), for as many tiles as `rows` rows of weights and `batch` rows of activations fill, up to
/// rows_together rows each.
template <class Products>
void set_some_tiles(const tile_operands& of, std::size_t rows, std::size_t batch, std::size_t steps,
                    typename Products::sum* sums, std::size_t stride) {
  const auto set = [&]<std::size_t Parts>(std::integral_constant<std::size_t, Parts>) {
    constexpr decltype(&set_tiles<Products, Parts, 1, 1>) every[2][2] = {
        {set_tiles<Products, Parts, 1, 1>, set_tiles<Products, Parts, 1, 2>},
        {set_tiles<Products, Parts, 2, 1>, set_tiles<Products, Parts, 2, 2>}};
    every[rows > tile_rows ? 1 : 0][batch > tile_rows ? 1 : 0](of, steps, reinterpret_cast<std::byte*>(sums),
                                                               stride * sizeof *sums);
  };
  if constexpr (std::is_same_v<Products, half_products>) {
    constexpr std::size_t of_fp32 = activation_tiles::parts_of_fp32;
    if (of.parts == of_fp32) return set(std::integral_constant<std::size_t, of_fp32>());
  }
  set(std::integral_constant<std::size_t, 1>());
}

/// Implements set_half_products() and set_byte_products().
template <class Products>
void set_tile_products(const tile_operands& of, std::size_t rows, std::size_t batch, std::size_t steps,
                       typename Products::sum* sums, std::size_t stride) {
  shaped_registers registers;
  for (std::size_t b = 0; b < batch; b += rows_together) {
    const std::size_t of_batch = (std::min)(batch - b, rows_together);
    for (std::size_t row = 0; row < rows; row += rows_together) {
      const std::size_t of_rows = (std::min)(rows - row, rows_together);
      registers.set(of_rows, of_batch, tile_row_bytes);
      set_some_tiles<Products>(of.behind(row, b, 0), of_rows, of_batch, steps, sums + row * stride + b, stride);
    }
  }
}

/// Products that have not yet been multiplied by the scales of their rows.
struct unscaled_products {
  std::size_t number;  ///< number of the scale in each row
  alignas(64) float products[rows_together][rows_together];
};

ECQ_INLINE void set_half_products(const tile_operands& of, std::size_t rows, std::size_t batch, std::size_t steps,
                                  float* sums, std::size_t stride) {
  set_tile_products<half_products>(of, rows, batch, steps, sums, stride);
}

ECQ_INLINE void set_byte_products(bool is_signed, const tile_operands& of, std::size_t rows, std::size_t batch,
                                  std::size_t steps, std::int32_t* sums, std::size_t stride) {
  const auto set = is_signed ? set_tile_products<byte_products<true>> : set_tile_products<byte_products<false>>;
  set(of, rows, batch, steps, sums, stride);
}

ECQ_INLINE void add_scaled_products(const tile_operands& of, const bf16* const* scales, std::size_t rows,
                                    std::size_t batch, const column_range& columns, float* sums, std::size_t stride) {
  unscaled_products both[2];  // one is scaled while AMX works on the other
  const auto add_scaled = [&](const unscaled_products& some, std::size_t of_batch, float* to) {
    avx512::add_scaled<rows_together>(some.products[0], scales, some.number, rows, of_batch, to, stride);
  };
  shaped_registers registers;
  for (std::size_t b = 0; b < batch; b += rows_together) {
    const std::size_t of_batch = (std::min)(batch - b, rows_together);
    // Whole rows of registers are stored, since add_scaled() loads whole rows.
    const std::size_t stored = (of_batch + tile_rows - 1) / tile_rows * tile_rows;
    std::size_t done = 0;
    for (scale_run run(columns); run.is_there(); run.advance()) {
      // If the halves of registers have scales of their own, they are multiplied one half at a time.
      const std::size_t parts = run.number != run.second ? 2 : 1;
      registers.set(rows, stored, tile_row_bytes / parts);
      for (std::size_t part = 0; part < parts; ++part) {
        tile_operands there = of.behind(0, b, (run.begin - columns.first) / halves_of_step);
        there.weights += part * tile_row_bytes / 2;
        there.x += part * activation_tiles::tile_words / 2;
        unscaled_products& next = both[done % 2];
        next.number = part == 0 ? run.number : run.second;
        set_some_tiles<half_products>(there, rows, stored, (run.end - run.begin) / halves_of_step, next.products[0],
                                      rows_together);
        if (done++ != 0) add_scaled(both[done % 2], of_batch, sums + b);
      }
    }
    add_scaled(both[(done + 1) % 2], of_batch, sums + b);
  }
}

}  // namespace ecq::detail::amx

#endif
