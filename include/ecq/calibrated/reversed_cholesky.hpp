#pragma once
/// \file
/// The Cholesky factorisation that error feedback needs, a block at a time. Needs Eigen 3.3.

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq::detail {

/// Factorises A = L L^T in place: `lower` holds the lower triangle of a width x width matrix, row-major, and then L.
/// Returns the first column of the block of columns that is not positive definite, `width` if there is none. The number
/// of threads changes no bit.
inline result<std::size_t> factorize(const cpu& backend, std::size_t width, std::vector<double>& lower) {
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using index = Eigen::Index;
  Eigen::Map<matrix> all(lower.data(), static_cast<index>(width), static_cast<index>(width));
  constexpr std::size_t columns_at_once = 128, rows_at_once = 128;
  for (std::size_t first = 0; first < width; first += columns_at_once) {
    const auto done = static_cast<index>(first);
    const auto columns = static_cast<index>((std::min)(columns_at_once, width - first));
    const std::size_t tiles = (width - first + rows_at_once - 1) / rows_at_once;
    const auto rows_of = [&](std::size_t tile) {
      const std::size_t row = first + tile * rows_at_once;
      return all.middleRows(static_cast<index>(row), static_cast<index>((std::min)(rows_at_once, width - row)));
    };
    ECQ_CHECK(parallel_for(backend, first == 0 ? 0 : tiles, [&](std::size_t tile) -> result<void> {
      auto rows = rows_of(tile);
      rows.middleCols(done, columns).noalias() -= rows.leftCols(done) * all.block(done, 0, columns, done).transpose();
      return {};
    }));
    const Eigen::LLT<matrix> diagonal(all.block(done, done, columns, columns));
    if (diagonal.info() != Eigen::Success) return first;
    all.block(done, done, columns, columns) = diagonal.matrixL();
    ECQ_CHECK(parallel_for(backend, tiles - 1, [&](std::size_t before) -> result<void> {
      auto rows = rows_of(before + 1).middleCols(done, columns);
      all.block(done, done, columns, columns)
          .transpose()
          .template triangularView<Eigen::Upper>()
          .template solveInPlace<Eigen::OnTheRight>(rows);
      return {};
    }));
  }
  return width;
}

}  // namespace ecq::detail
