#pragma once
/// \file
/// Products of a tile of weights with some rows of activations, in the order of matmul/fusion.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/hidden_value.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Number of columns of activations that are multiplied at a time: four such rows stay in the L1 cache.
inline constexpr std::size_t tile_columns = 2048;

/// Columns of weights that are multiplied.
struct column_range {
  std::size_t first;
  std::size_t count;        ///< at least 1
  std::size_t of_scale;     ///< columns that share a scale, from column 0 on
  bool two_blocks = false;  ///< groups of two blocks (block_of_scale) have one in each half of every register
};

/// Iterator over the runs of columns that kernels multiply at a time, from `begin` to `end`: the columns of one scale,
/// or a group of two blocks if the halves of registers may have different scales.
class scale_run {
 public:
  explicit scale_run(const column_range& columns)
      : begin(columns.first),
        number(columns.first / columns.of_scale),
        all_(columns),
        by_groups_(columns.two_blocks && columns.of_scale % (2 * block_of_scale) != 0) {
    find();
  }

  bool is_first() const { return begin == all_.first; }
  bool is_there() const { return begin != all_.first + all_.count; }
  void advance() {
    begin = end;
    find();
  }

  std::size_t begin;
  std::size_t end = 0;
  std::size_t number;      ///< of the scale in the lower halves of registers
  std::size_t second = 0;  ///< of the scale in the upper halves

 private:
  void find() {
    while ((number + 1) * all_.of_scale <= begin) ++number;
    second = number;
    end = (std::min)(all_.first + all_.count, (number + 1) * all_.of_scale);
    if (!by_groups_) return;
    second = number + ((number + 1) * all_.of_scale <= begin + block_of_scale ? 1 : 0);
    end = begin + 2 * block_of_scale;
  }

  column_range all_;
  bool by_groups_;
};

/// Sums of `Lanes` lanes that a kernel keeps in memory while it adds up those of another scale. They lie behind a
/// pointer that compilers cannot see through: otherwise, compilers would keep both in registers and store them by
/// turns.
template <std::size_t Rows, std::size_t Batch, std::size_t Lanes>
struct scaled_sums {
  float* of(std::size_t row, std::size_t b) const { return at + (row * Batch + b) * Lanes; }

  alignas(64) float lanes[Rows * Batch * Lanes];
  float* at = hidden_value(lanes + 0);
};

/// Returns how many rows of weights `Dots` multiplies next if `left` rows are left. Single rows take three times as
/// long each.
template <class Dots>
constexpr std::size_t rows_together(std::size_t left) noexcept {
  const bool twice_fewer = Dots::fewer_rows != 1 && left == 2 * Dots::fewer_rows;
  if (left >= Dots::rows && !twice_fewer) return Dots::rows;
  return left >= Dots::fewer_rows ? Dots::fewer_rows : 1;
}

/// sums[row * sum_stride + b] += the sum of weight (row, column) * scale (row, column) * x (b, column) over `columns`,
/// of which whole blocks share a scale. `weights` begin with the first of `columns`, `x` with column 0, and
/// `scales(row)` with the scale of column 0. If scales are null, all columns share one scale, which is left out.
/// `Dots::add<Rows, Batch>(weights, weight_stride, scales, x, stride, columns, sums, sum_stride)` does this for a few
/// rows: Dots::rows, Dots::fewer_rows or one row of weights by four rows of activations or one. Dots::weights_stay says
/// whether weights, rather than activations, stay in the L1 cache meanwhile.
template <class Dots, class Scales>
inline void add_tile_products(const std::uint16_t* weights, std::size_t weight_stride, const Scales& scales,
                              std::size_t rows, const typename Dots::activation* x, std::size_t stride,
                              const column_range& columns, std::size_t batch, float* sums, std::size_t sum_stride) {
  for (std::size_t done = 0; done < columns.count; done += tile_columns) {
    column_range some = columns;
    some.first += done;
    some.count = (std::min)(tile_columns, columns.count - done);
    const auto add_all = [&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows>, std::size_t row,
                                               std::size_t b, std::size_t end) {
      const bf16* of_rows[Rows];
      for (std::size_t i = 0; i < Rows; ++i) of_rows[i] = scales(row + i);
      const std::uint16_t* const own = weights + row * weight_stride + done;
      float* const to = sums + row * sum_stride;
      for (; b + 4 <= end; b += 4) {
        Dots::template add<Rows, 4>(own, weight_stride, of_rows, x + b * stride, stride, some, to + b, sum_stride);
      }
      for (; b < end; ++b) {
        Dots::template add<Rows, 1>(own, weight_stride, of_rows, x + b * stride, stride, some, to + b, sum_stride);
      }
    };
    const std::size_t step = Dots::weights_stay ? batch : 4;
    for (std::size_t b = 0; b < batch; b += step) {
      const std::size_t end = (std::min)(b + step, batch);
      for (std::size_t row = 0; row < rows;) {
        const std::size_t together = rows_together<Dots>(rows - row);
        if (together == Dots::rows) add_all(std::integral_constant<std::size_t, Dots::rows>(), row, b, end);
        if constexpr (Dots::fewer_rows != 1) {
          if (together == Dots::fewer_rows) {
            add_all(std::integral_constant<std::size_t, Dots::fewer_rows>(), row, b, end);
          }
        }
        if (together == 1) add_all(std::integral_constant<std::size_t, 1>(), row, b, end);
        row += together;
      }
    }
  }
}

}  // namespace ecq::detail
