#pragma once
/// \file
/// Products of a tile of weights with some rows of activations, in the order of matmul/fusion.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/hidden_value.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Columns of activations that are multiplied at a time: four rows of them stay in the first cache.
inline constexpr std::size_t tile_columns = 2048;

/// Columns of weights that are multiplied.
struct column_range {
  std::size_t first;
  std::size_t count;        ///< at least 1
  std::size_t of_scale;     ///< columns that share a scale, from column 0 on
  bool two_blocks = false;  ///< groups of two blocks (block_of_scale) have one in each half of every register
};

/// Kernels meet the columns of each scale in turn, or, where halves of registers may have different ones, groups of two
/// blocks: those from `begin` to `end`.
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
  std::size_t number;      ///< of the scale, in the lower halves of registers
  std::size_t second = 0;  ///< in the upper ones

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

/// Sums of `Lanes` lanes that a kernel keeps in memory while it adds up those of another scale: behind a pointer of
/// which compilers know nothing, since they would keep both in registers, and store them by turns.
template <std::size_t Rows, std::size_t Batch, std::size_t Lanes>
struct scaled_sums {
  float* of(std::size_t row, std::size_t b) const { return at + (row * Batch + b) * Lanes; }

  alignas(64) float lanes[Rows * Batch * Lanes];
  float* at = hidden_value(lanes + 0);
};

/// sums[row * sum_stride + b] += the sum of weight (row, column) * scale of both * x (b, column) over `columns`, of
/// which whole blocks share a scale. `weights` begin with the first one of `columns`, `x` with column 0, `scales(row)`
/// with that of column 0; where they are null, all columns share one, which is left out. `Dots::add<Rows,
/// Batch>(weights, weight_stride, scales, x, stride, columns, sums, sum_stride)` does so for few rows: one or
/// Dots::rows, by one or four.
template <class Dots, class Scales>
inline void add_tile_products(const std::uint16_t* weights, std::size_t weight_stride, const Scales& scales,
                              std::size_t rows, const typename Dots::activation* x, std::size_t stride,
                              const column_range& columns, std::size_t batch, float* sums, std::size_t sum_stride) {
  for (std::size_t done = 0; done < columns.count; done += tile_columns) {
    column_range some = columns;
    some.first += done;
    some.count = (std::min)(tile_columns, columns.count - done);
    for (std::size_t b = 0; b < batch;) {
      const std::size_t together = batch - b < 4 ? 1 : 4;
      for (std::size_t row = 0; row < rows;) {
        const bool many = rows - row >= Dots::rows;
        const bf16* of_rows[Dots::rows];
        for (std::size_t i = 0; i < (many ? Dots::rows : 1); ++i) of_rows[i] = scales(row + i);
        const std::uint16_t* const own = weights + row * weight_stride + done;
        const auto* const from = x + b * stride;
        float* const to = sums + row * sum_stride + b;
        if (many && together == 4) {
          Dots::template add<Dots::rows, 4>(own, weight_stride, of_rows, from, stride, some, to, sum_stride);
        } else if (many) {
          Dots::template add<Dots::rows, 1>(own, weight_stride, of_rows, from, stride, some, to, sum_stride);
        } else if (together == 4) {
          Dots::template add<1, 4>(own, weight_stride, of_rows, from, stride, some, to, sum_stride);
        } else {
          Dots::template add<1, 1>(own, weight_stride, of_rows, from, stride, some, to, sum_stride);
        }
        row += many ? Dots::rows : 1;
      }
      b += together;
    }
  }
}

}  // namespace ecq::detail
