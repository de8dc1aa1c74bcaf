#include "ecq/base/matrix_view.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using ecq::matrix_view;

std::array<float, 12> counted() {
  std::array<float, 12> values{};
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(MatrixView, ContiguousIsRowMajor) {
  auto values = counted();
  const matrix_view<float> matrix(values.data(), 3, 4);
  EXPECT_EQ(matrix.rows(), 3U);
  EXPECT_EQ(matrix.columns(), 4U);
  EXPECT_EQ(matrix.size(), 12U);
  EXPECT_EQ(matrix.row_stride(), 4);
  EXPECT_EQ(matrix.column_stride(), 1);
  EXPECT_TRUE(matrix.contiguous_rows());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(matrix(row, column), static_cast<float>(4 * row + column));
    }
  }
  matrix(2, 1) = -1.0F;
  EXPECT_EQ(values[9], -1.0F);
}

TEST(MatrixView, EmptyByDefault) {
  const matrix_view<float> nothing;
  EXPECT_TRUE(nothing.empty());
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_TRUE((matrix_view<float>(nullptr, 0, 7).empty()));
  EXPECT_TRUE((matrix_view<float>(nullptr, 7, 0).empty()));
}

TEST(MatrixView, StridesTransposeAndReverse) {
  auto values = counted();
  const matrix_view<float> transposed(values.data(), 4, 3, 1, 4);
  EXPECT_EQ(transposed(3, 2), 11.0F);
  EXPECT_EQ(transposed(1, 0), 1.0F);
  EXPECT_FALSE(transposed.contiguous_rows());

  const matrix_view<float> reversed(values.data() + 11, 3, 4, -4, -1);
  EXPECT_EQ(reversed(0, 0), 11.0F);
  EXPECT_EQ(reversed(2, 3), 0.0F);
  EXPECT_EQ(reversed(1, 1), 6.0F);

  const matrix_view<float> repeated(values.data(), 5, 4, 0);
  EXPECT_EQ(repeated(4, 3), 3.0F);
}

TEST(MatrixView, RowRangeKeepsStrides) {
  auto values = counted();
  const matrix_view<float> reversed(values.data() + 8, 3, 4, -4);
  const auto last = reversed.row_range(1, 2);
  EXPECT_EQ(last.rows(), 2U);
  EXPECT_EQ(last(0, 0), 4.0F);
  EXPECT_EQ(last(1, 3), 3.0F);
  EXPECT_TRUE(reversed.row_range(3, 0).empty());
}

TEST(MatrixView, SpanIsOneRow) {
  auto values = counted();
  const matrix_view<float> dynamic = std::span<float>(values);
  const matrix_view<const float> fixed = std::span<float, 12>(values);
  EXPECT_EQ(dynamic.rows(), 1U);
  EXPECT_EQ(dynamic.columns(), 12U);
  EXPECT_EQ(fixed(0, 11), 11.0F);
}

TEST(MatrixView, WhatLiesTogetherIsOneRow) {
  std::vector<float> values = {1, 2, 3};
  const std::array<float, 2> fixed = {4, 5};
  EXPECT_EQ(matrix_view<float>(values)(0, 2), 3.0F);
  EXPECT_EQ(matrix_view(fixed).columns(), 2U);
  static_assert(std::is_same_v<decltype(matrix_view(fixed)), matrix_view<const float>>);
  static_assert(std::is_same_v<decltype(matrix_view(values)), matrix_view<float>>);
}

TEST(MatrixView, GainsConstButNeverLosesIt) {
  auto values = counted();
  const matrix_view<float> matrix(values.data(), 3, 4);
  const matrix_view<const float> constant = matrix;
  EXPECT_EQ(constant(1, 2), 6.0F);
  static_assert(!std::is_convertible_v<matrix_view<const float>, matrix_view<float>>);
  static_assert(!std::is_convertible_v<std::span<const float>, matrix_view<float>>);
  static_assert(std::is_convertible_v<std::span<float>, matrix_view<const float>>);
}

TEST(MatrixView, KeepsToItsElementType) {
  struct base {
    int value;
  };
  struct derived : base {
    int more;
  };
  static_assert(!std::is_convertible_v<matrix_view<derived>, matrix_view<base>>, "the stride would be wrong");
  static_assert(!std::is_convertible_v<matrix_view<float>, matrix_view<double>>);
  static_assert(!std::is_convertible_v<std::vector<float>&, matrix_view<double>>);
  static_assert(!std::is_convertible_v<const std::vector<float>&, matrix_view<float>>);
  static_assert(std::is_trivially_copyable_v<matrix_view<float>>, "goes to device code as it is");
}

TEST(MatrixView, UsableInConstantExpressions) {
  static constexpr std::array<int, 6> values{1, 2, 3, 4, 5, 6};
  constexpr matrix_view<const int> matrix(values.data(), 2, 3);
  static_assert(matrix(1, 2) == 6 && matrix.row_range(1, 1)(0, 0) == 4);
}

}  // namespace
