#pragma once
/// \file
/// Eigen's product of dense matrices, for ecq::matmul with many rows of activations. Needs Eigen 3.3.

#include <Eigen/Core>
#include <type_traits>

#include "ecq/base/matrix_view.hpp"

namespace ecq {

namespace detail {

/// Returns Eigen's map of a view, with `strides` of rows and columns.
template <class Element, class Strides>
auto mapped(matrix_view<Element> view, const Strides& strides) {
  using dense = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using matrix = std::conditional_t<std::is_const_v<Element>, const dense, dense>;
  return Eigen::Map<matrix, Eigen::Unaligned, Strides>(view.data(), static_cast<Eigen::Index>(view.rows()),
                                                       static_cast<Eigen::Index>(view.columns()), strides);
}

}  // namespace detail

/// Product of dense matrices by Eigen: `ecq::matmul(backend, plan, x, y, ecq::eigen_product())`. Views may have any
/// strides. If the elements of a row are not contiguous in one of them, Eigen copies x and weights.
struct eigen_product {
  void operator()(matrix_view<const float> x, matrix_view<const float> weights, matrix_view<float> y) const {
    const auto multiply = [&](const auto& strides_of) {
      detail::mapped(y, strides_of(y)).noalias() +=
          detail::mapped(x, strides_of(x)) * detail::mapped(weights, strides_of(weights)).transpose();
    };
    if (x.column_stride() == 1 && weights.column_stride() == 1 && y.column_stride() == 1) {
      multiply([](const auto& view) { return Eigen::OuterStride<>(view.row_stride()); });
    } else {
      multiply([](const auto& view) {
        return Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(view.row_stride(), view.column_stride());
      });
    }
  }
};

}  // namespace ecq
