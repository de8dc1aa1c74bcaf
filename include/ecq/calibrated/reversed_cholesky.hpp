#pragma once
/// \file
/// Cholesky factorisation for error feedback, a block at a time. Needs Eigen 3.3.

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/panel_product.hpp"

namespace ecq::detail {

/// Lower triangle of a width x width matrix, by blocks of rows: the elements of a column follow one another. The last
/// block is padded with zeros.
class lower_triangle {
 public:
  static constexpr std::size_t rows_of_block = lanes_of_rows;

  explicit lower_triangle(std::size_t width) : width_(width), values_(begin_of(blocks())) {}

  std::size_t width() const noexcept { return width_; }
  std::size_t blocks() const noexcept { return (width_ + rows_of_block - 1) / rows_of_block; }
  /// Returns the number of rows of a block without padding.
  std::size_t rows(std::size_t number) const noexcept {
    return (std::min)(rows_of_block, width_ - number * rows_of_block);
  }

  /// Returns block `number`, which has (number + 1) * rows_of_block columns. Its element (row, column) is at
  /// column * rows_of_block + row.
  double* block(std::size_t number) noexcept { return values_.data() + begin_of(number); }
  const double* block(std::size_t number) const noexcept { return values_.data() + begin_of(number); }

  /// Returns element (row, column). Precondition: column <= row < width.
  double operator()(std::size_t row, std::size_t column) const noexcept {
    return block(row / rows_of_block)[column * rows_of_block + row % rows_of_block];
  }

 private:
  static std::size_t begin_of(std::size_t block) noexcept {
    return rows_of_block * rows_of_block * (block * (block + 1) / 2);
  }

  std::size_t width_;
  std::vector<double> values_;
};

/// Factorises A = L L^T in place: `all` becomes L. Returns the first column of the block that is not positive definite,
/// or the width if there is none. Neither the number of threads nor the instruction set changes a bit.
inline result<std::size_t> factorize(const cpu& backend, lower_triangle& all) {
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;
  using index = Eigen::Index;
  constexpr std::size_t side = lower_triangle::rows_of_block;
  const auto isa = chosen_instruction_set(backend.isa);
  const auto part = [&](std::size_t row_block, std::size_t column_block) {
    return Eigen::Map<matrix, 0, Eigen::OuterStride<static_cast<index>(side)>>(
        all.block(row_block) + column_block * side * side, static_cast<index>(all.rows(row_block)),
        static_cast<index>(all.rows(column_block)));
  };
  for (std::size_t done = 0; done < all.blocks(); ++done) {
    const std::size_t left = all.blocks() - done;
    ECQ_CHECK(parallel_for(backend, done == 0 ? 0 : left, [&](std::size_t number) -> result<void> {
      double* const rows = all.block(done + number);
      for (std::size_t column = 0; column < side; column += panel_columns) {
        subtract_products(rows + (done * side + column) * side, all.block(done) + column, side, rows, done * side, isa);
      }
      return {};
    }));
    auto square = part(done, done);
    const Eigen::LLT<matrix> diagonal(square);
    if (diagonal.info() != Eigen::Success) return done * side;
    square = diagonal.matrixL();
    ECQ_CHECK(parallel_for(backend, left - 1, [&](std::size_t number) -> result<void> {
      auto below = part(done + 1 + number, done);
      square.transpose().template triangularView<Eigen::Upper>().template solveInPlace<Eigen::OnTheRight>(below);
      return {};
    }));
  }
  return all.width();
}

}  // namespace ecq::detail
