#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/format/weights_view.hpp"

namespace {

using ecq::matrix_view;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Matrix, class Dense>
void expect_same(const Matrix& view, const Dense& dense) {
  ASSERT_EQ(view.rows(), static_cast<std::size_t>(dense.rows()));
  ASSERT_EQ(view.columns(), static_cast<std::size_t>(dense.cols()));
  for (Eigen::Index row = 0; row < dense.rows(); ++row) {
    for (Eigen::Index column = 0; column < dense.cols(); ++column) {
      EXPECT_EQ(view(static_cast<std::size_t>(row), static_cast<std::size_t>(column)), dense(row, column));
    }
  }
}

template <class Matrix>
Matrix counted(Eigen::Index rows, Eigen::Index columns) {
  return Matrix::NullaryExpr(rows, columns, [columns](Eigen::Index row, Eigen::Index column) {
    return static_cast<float>(row * columns + column);
  });
}

TEST(Eigen, MatricesOfBothOrders) {
  Eigen::MatrixXf by_column = counted<Eigen::MatrixXf>(3, 5);
  row_major by_row = counted<row_major>(3, 5);
  expect_same(matrix_view<float>(by_column), by_column);
  expect_same(matrix_view<float>(by_row), by_row);
  EXPECT_TRUE(matrix_view<float>(by_row).contiguous_rows());
  EXPECT_FALSE(matrix_view<float>(by_column).contiguous_rows());
  const matrix_view<float> writable = by_column;
  writable(2, 4) = -7.0F;
  EXPECT_EQ(by_column(2, 4), -7.0F);
}

TEST(Eigen, ConstMatricesGiveConstViews) {
  const Eigen::MatrixXf constant = counted<Eigen::MatrixXf>(4, 2);
  expect_same(matrix_view<const float>(constant), constant);
  static_assert(!std::is_convertible_v<const Eigen::MatrixXf&, matrix_view<float>>);
  static_assert(!std::is_convertible_v<Eigen::MatrixXd&, matrix_view<float>>);
  static_assert(std::is_convertible_v<Eigen::MatrixXf&, matrix_view<const float>>);
}

TEST(Eigen, FixedSizesAndVectors) {
  Eigen::Matrix<float, 2, 3> fixed = counted<Eigen::MatrixXf>(2, 3);
  Eigen::VectorXf column = Eigen::VectorXf::LinSpaced(4, 0.0F, 3.0F);
  Eigen::RowVectorXf row = Eigen::RowVectorXf::LinSpaced(4, 0.0F, 3.0F);
  expect_same(matrix_view<float>(fixed), fixed);
  expect_same(matrix_view<float>(column), column);
  expect_same(matrix_view<float>(row), row);
}

TEST(Eigen, BlocksAndTransposes) {
  Eigen::MatrixXf matrix = counted<Eigen::MatrixXf>(6, 7);
  auto block = matrix.block(1, 2, 4, 3);
  expect_same(matrix_view<float>(block), block);
  expect_same(matrix_view<float>(matrix.transpose()), Eigen::MatrixXf(matrix.transpose()));
  expect_same(matrix_view<float>(block.transpose()), Eigen::MatrixXf(block.transpose()));
  expect_same(matrix_view<float>(matrix.row(3)), Eigen::MatrixXf(matrix.row(3)));
  const Eigen::MatrixXf& constant = matrix;
  expect_same(matrix_view<const float>(constant.middleRows(2, 3)), Eigen::MatrixXf(constant.middleRows(2, 3)));
}

TEST(Eigen, MapsWithAnyStride) {
  std::vector<float> values(60);
  for (std::size_t index = 0; index < values.size(); ++index) values[index] = static_cast<float>(index);
  Eigen::Map<row_major> plain(values.data(), 4, 15);
  expect_same(matrix_view<float>(plain), plain);
  using strided = Eigen::Map<const row_major, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const strided every_second(values.data(), 4, 5, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(15, 2));
  expect_same(matrix_view<const float>(every_second), every_second);
  const strided reversed(values.data() + 59, 4, 15, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(-15, -1));
  expect_same(matrix_view<const float>(reversed), reversed);
}

TEST(Eigen, WeightsOfATransposedBlock) {
  Eigen::MatrixXf matrix = counted<Eigen::MatrixXf>(5, 6);
  const matrix_view<const float> view(matrix.block(1, 1, 3, 4).transpose());
  const ecq::weights_view weights = view;
  std::vector<float> row(3);
  weights.load(2, 0, row);
  EXPECT_EQ(row, (std::vector<float>{matrix(1, 3), matrix(2, 3), matrix(3, 3)}));
}

}  // namespace
