#pragma once
/// \file
/// Weights in any floating-point format: a matrix whose element type is known at run time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weight_scales.hpp"

namespace ecq {

/// A read-only view of rows x columns weights of fp32, fp16, bf16, fp8_e4m3 or fp8_e5m2. Rows are output channels.
/// Elements are in the machine's byte order and may lie at unaligned addresses (memory-mapped files). Quantised weights
/// come with their scales (scaled_by) and may then be int8, too.
class weights_view {
 public:
  weights_view() noexcept = default;

  /// Converts implicitly from matrix_view<float>, matrix_view<const bf16>, ..., and from anything that converts to one:
  /// a std::span or std::vector (one row), an Eigen matrix.
  template <class Source>
    requires(!std::is_same_v<std::remove_cvref_t<Source>, weights_view> &&
             requires(Source& source) {
               requires is_floating_point(dtype_of<typename decltype(matrix_view(source))::value_type>);
             })
  weights_view(Source&& source) noexcept : weights_view(of(matrix_view(source))) {}

  /// Makes a view of rows x columns elements of format `type` at `data`, with strides in elements; precondition:
  /// is_floating_point(type), or int8 if scaled_by follows, or uint8 for bytes that only lossless methods take.
  weights_view(dtype type, const void* data, std::size_t rows, std::size_t columns, std::ptrdiff_t row_stride,
               std::ptrdiff_t column_stride = 1) noexcept
      : data_(static_cast<const std::byte*>(data)),
        rows_(rows),
        columns_(columns),
        row_stride_(row_stride),
        column_stride_(column_stride),
        type_(type) {}

  /// Returns a view of the same elements whose weights are the products of elements and their scales, rounded to FP32.
  /// The scales must outlive the view; precondition: there is one for every element.
  weights_view scaled_by(const weight_scales& scales) const noexcept {
    weights_view scaled = *this;
    scaled.scales_ = scales;
    return scaled;
  }

  /// Returns a view of the same weights in which those at `positions` (row * columns() + column of this view) are to be
  /// kept exact: load() gives 0 in their place, so that no scale is chosen for them. Lossless methods ignore them.
  /// Positions must ascend strictly, or compression of the matrix fails, and must outlive the view. Precondition: this
  /// view is not a range or selection of rows.
  weights_view with_exact(std::span<const std::uint64_t> positions) const noexcept {
    weights_view part = *this;
    part.exact_ = positions;
    return part;
  }
  /// Returns the positions of the weights to be kept exact, relative to the view for which they were given.
  std::span<const std::uint64_t> exact() const noexcept { return exact_; }

  /// Returns the format of the elements.
  dtype type() const noexcept { return type_; }
  /// Returns the format of the weights after decompression: type(), or BF16 if they have scales.
  dtype unpacked_type() const noexcept { return scales_ ? dtype::bf16 : type_; }
  bool is_scaled() const noexcept { return scales_.has_value(); }
  const std::byte* data() const noexcept { return data_; }
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  std::size_t size() const noexcept { return rows_ * columns_; }
  bool empty() const noexcept { return rows_ == 0 || columns_ == 0; }
  std::ptrdiff_t row_stride() const noexcept { return row_stride_; }        ///< in elements
  std::ptrdiff_t column_stride() const noexcept { return column_stride_; }  ///< in elements

  /// Returns the `count` rows from row `first` on; precondition: first + count <= rows().
  weights_view row_range(std::size_t first, std::size_t count) const noexcept {
    weights_view part = *this;
    part.data_ += static_cast<std::ptrdiff_t>(first) * row_stride_ * static_cast<std::ptrdiff_t>(size_of(type_));
    part.rows_ = count;
    part.first_row_ += first * row_step_;
    return part;
  }

  /// Returns rows 0, step, 2 * step, ...; precondition: step > 0.
  weights_view every_row(std::size_t step) const noexcept {
    weights_view part = *this;
    part.rows_ = rows_ == 0 ? 0 : (rows_ - 1) / step + 1;
    part.row_stride_ = row_stride_ * static_cast<std::ptrdiff_t>(step);
    part.row_step_ = row_step_ * step;
    return part;
  }

  /// Reads out.size() weights of `row` from `first_column` on as FP32. The values are exact for every type without
  /// scales, and 0 for weights to be kept exact.
  void load(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept;

 private:
  template <class Element>
  static weights_view of(const matrix_view<Element>& matrix) noexcept {
    return {dtype_of<std::remove_cv_t<Element>>,
            matrix.data(),
            matrix.rows(),
            matrix.columns(),
            matrix.row_stride(),
            matrix.column_stride()};
  }

  template <class Format>
  void load_as(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept;
  void scale(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept;
  void leave_exact_out(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept;

  const std::byte* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::ptrdiff_t row_stride_ = 0;
  std::ptrdiff_t column_stride_ = 1;
  dtype type_ = dtype::fp32;
  std::optional<weight_scales> scales_;
  std::span<const std::uint64_t> exact_;
  std::size_t first_row_ = 0;  ///< row of the whole matrix at which the view begins
  std::size_t row_step_ = 1;   ///< rows of the whole matrix from one row of the view to the next
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/format/weights_view-inl.hpp"
#endif
