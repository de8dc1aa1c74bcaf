#pragma once
/// \file
/// Eigen's product of dense matrices, for ecq::matmul of many rows of activations. Needs Eigen 3.3.

#include <Eigen/Core>
#include <type_traits>

#include "ecq/base/matrix_view.hpp"

namespace ecq {

namespace detail {

/// A view as Eigen sees it.
template <class Element>
auto mapped(matrix_view<Element> view) {
  using dense = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using matrix = std::conditional_t<std::is_const_v<Element>, const dense, dense>;
  using stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  return Eigen::Map<matrix, Eigen::Unaligned, stride>(view.data(), static_cast<Eigen::Index>(view.rows()),
                                                      static_cast<Eigen::Index>(view.columns()),
                                                      stride(view.row_stride(), view.column_stride()));
}

}  // namespace detail

/// Products by Eigen: `ecq::matmul(backend, plan, x, y, ecq::eigen_product())`. Views may have any strides.
struct eigen_product {
  void operator()(matrix_view<const float> x, matrix_view<const float> weights, matrix_view<float> y) const {
    detail::mapped(y).noalias() += detail::mapped(x) * detail::mapped(weights).transpose();
  }
};

}  // namespace ecq
