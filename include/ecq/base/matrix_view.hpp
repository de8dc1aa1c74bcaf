#pragma once
/// \file
/// A non-owning strided matrix, which all operations take and fill. C++20 has no std::mdspan.

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace ecq {

namespace detail {

/// std::span, std::vector, std::array and the like: contiguous elements without rows.
template <class Type>
concept contiguous_row = requires(Type& row) {
  { *row.data() };
  { row.size() } -> std::integral;
} && !requires(Type& row) { row.rows(); };

template <class Row>
using element_of_row = std::remove_pointer_t<decltype(std::declval<Row&>().data())>;

}  // namespace detail

/// A view of rows x columns elements at data[row * row_stride + column * column_stride], with strides in elements, of
/// any sign. Rows are output channels. Converts from std::span, std::vector and the like (one row) and from anything
/// shaped like a dense Eigen object (rows(), cols(), data(), rowStride(), colStride()), including transposed and block
/// expressions.
template <class Element>
class matrix_view {
 public:
  using element_type = Element;
  using value_type = std::remove_cv_t<Element>;

  constexpr matrix_view() noexcept = default;

  /// A contiguous, row-major matrix.
  constexpr matrix_view(Element* data, std::size_t rows, std::size_t columns) noexcept
      : matrix_view(data, rows, columns, static_cast<std::ptrdiff_t>(columns)) {}

  constexpr matrix_view(Element* data, std::size_t rows, std::size_t columns, std::ptrdiff_t row_stride,
                        std::ptrdiff_t column_stride = 1) noexcept
      : data_(data), rows_(rows), columns_(columns), row_stride_(row_stride), column_stride_(column_stride) {}

  template <class Other>
    requires std::is_convertible_v<Other (*)[], Element (*)[]>
  constexpr matrix_view(const matrix_view<Other>& other) noexcept
      : matrix_view(other.data(), other.rows(), other.columns(), other.row_stride(), other.column_stride()) {}

  template <detail::contiguous_row Row>
    requires std::is_convertible_v<detail::element_of_row<Row> (*)[], Element (*)[]>
  constexpr matrix_view(Row&& row) noexcept : matrix_view(row.data(), 1, row.size()) {}

  template <class Dense>
    requires requires(Dense& dense) {
      { dense.data() } -> std::convertible_to<Element*>;
      { dense.rows() } -> std::integral;
      { dense.cols() } -> std::integral;
      { dense.rowStride() } -> std::integral;
      { dense.colStride() } -> std::integral;
    }
  constexpr matrix_view(Dense&& dense)
      : matrix_view(dense.data(), static_cast<std::size_t>(dense.rows()), static_cast<std::size_t>(dense.cols()),
                    static_cast<std::ptrdiff_t>(dense.rowStride()), static_cast<std::ptrdiff_t>(dense.colStride())) {}

  constexpr Element* data() const noexcept { return data_; }
  constexpr std::size_t rows() const noexcept { return rows_; }
  constexpr std::size_t columns() const noexcept { return columns_; }
  constexpr std::ptrdiff_t row_stride() const noexcept { return row_stride_; }
  constexpr std::ptrdiff_t column_stride() const noexcept { return column_stride_; }
  constexpr std::size_t size() const noexcept { return rows_ * columns_; }
  constexpr bool empty() const noexcept { return rows_ == 0 || columns_ == 0; }

  constexpr bool contiguous_rows() const noexcept { return column_stride_ == 1 || columns_ <= 1; }

  constexpr Element& operator()(std::size_t row, std::size_t column) const noexcept {
    return data_[static_cast<std::ptrdiff_t>(row) * row_stride_ + static_cast<std::ptrdiff_t>(column) * column_stride_];
  }

  /// Returns the `count` rows from row `first` on; precondition: first + count <= rows().
  constexpr matrix_view row_range(std::size_t first, std::size_t count) const noexcept {
    return {data_ + static_cast<std::ptrdiff_t>(first) * row_stride_, count, columns_, row_stride_, column_stride_};
  }

 private:
  Element* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::ptrdiff_t row_stride_ = 0;
  std::ptrdiff_t column_stride_ = 1;
};

template <detail::contiguous_row Row>
matrix_view(Row&& row) -> matrix_view<detail::element_of_row<Row>>;

template <class Dense>
  requires requires(Dense& dense) { dense.rowStride(); }
matrix_view(Dense&& dense) -> matrix_view<std::remove_pointer_t<decltype(dense.data())>>;

}  // namespace ecq
