#pragma once
/// \file
/// Activations in the form that products with coded weights read.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/line_vector.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/activation_tiles.hpp"
#include "ecq/matmul/dense_product.hpp"
#include "ecq/matmul/quantized_activations.hpp"

namespace ecq {

/// Element types of activations.
template <class Element>
concept activation = std::is_same_v<Element, float> || std::is_same_v<Element, bf16>;

namespace detail {

/// Sets to[column] to x(row, column) in FP32.
template <activation Element>
void copy_row(matrix_view<const Element> x, std::size_t row, float* to) {
  if (!x.contiguous_rows()) {
    for (std::size_t column = 0; column < x.columns(); ++column) to[column] = static_cast<float>(x(row, column));
    return;
  }
  const Element* const from = x.data() + static_cast<std::ptrdiff_t>(row) * x.row_stride();
  for (std::size_t column = 0; column < x.columns(); ++column) to[column] = static_cast<float>(from[column]);
}

/// Whether two views may share memory.
template <class First, class Second>
bool may_overlap(matrix_view<First> first, matrix_view<Second> second) {
  if (first.empty() || second.empty()) return false;
  // Addresses are compared as numbers, since the views need not be parts of one array.
  const auto bytes_of = [](const auto& view) {
    const auto at = [&](std::size_t row, std::size_t column) {
      return reinterpret_cast<std::uintptr_t>(&view(row, column));
    };
    const auto ends = std::minmax(
        {at(0, 0), at(view.rows() - 1, 0), at(0, view.columns() - 1), at(view.rows() - 1, view.columns() - 1)});
    return std::pair(ends.first, ends.second + sizeof(view(0, 0)));
  };
  const auto a = bytes_of(first);
  const auto b = bytes_of(second);
  return a.first < b.second && b.first < a.second;
}

}  // namespace detail

/// Conversion of activations before they are multiplied.
enum class activation_type : unsigned char {
  fp32,  ///< none
  bf16,  ///< to the nearest BF16 number, ties to even
  /// To integers q times a scale, max |x| / 127, for each row of x: q is the integer nearest to x * (127 / max |x|),
  /// ties to even. A row of zeros stays zero. A row with NaN or infinity has no values: all its products are NaN.
  int8
};

/// Activations in the form that the tasks of a plan read: n rows of FP32, or of integers with a scale. BF16 becomes
/// FP32 without rounding. Movable, but not copyable.
class matmul_input {
 public:
  matmul_input(matmul_input&&) noexcept = default;  // rows may lie in memory that this object owns
  matmul_input& operator=(matmul_input&&) noexcept = default;

  std::size_t batch() const noexcept { return batch_; }
  const float* row(std::size_t index) const noexcept { return rows_ + index * stride_; }
  std::size_t stride() const noexcept { return stride_; }

 private:
  friend class matmul_plan;

  matmul_input() = default;

  /// Returns the sum of x(index, column) for `count` columns from `first` on.
  double sum(std::size_t index, std::size_t first, std::size_t count) const noexcept {
    const double* const sums = sums_.data() + index * sums_stride_ + first;
    const double difference = sums[count] - sums[0];
    constexpr std::uint64_t infinity = 0x7FF;  // compared as bits, which no option for fast arithmetic affects
    if ((std::bit_cast<std::uint64_t>(difference) >> 52U & infinity) != infinity) return difference;
    return std::accumulate(row(index) + first, row(index) + first + count, 0.0);  // infinities elsewhere do not count
  }

  /// Whether there are rows in the order of fused products.
  bool is_ordered() const noexcept { return !ordered_.empty() || !ordered_halves_.empty() || !tiles_.empty(); }

  /// Returns the rows in the order of fused products. Activation is float or, for BF16, std::uint16_t.
  template <class Activation>
  const Activation* ordered() const noexcept {
    if constexpr (std::is_same_v<Activation, float>) {
      return ordered_.data();
    } else {
      return ordered_halves_.data();
    }
  }

  std::size_t batch_ = 0;
  const float* rows_ = nullptr;
  std::size_t stride_ = 0;
  detail::line_vector<float> copy_;
  detail::line_vector<float> ordered_;                        ///< all rows in the order of fused products; or empty
  detail::line_vector<std::uint16_t> ordered_halves_;         ///< such rows as BF16, instead of FP32
  detail::activation_tiles tiles_;                            ///< such rows as tiles of BF16, instead of either
  half_product product_;                                      ///< multiplies these rows; otherwise, kernels do
  instruction_set ordered_for_ = instruction_set::automatic;  ///< instruction set whose kernels use this order
  std::size_t sums_stride_ = 0;
  std::vector<double> sums_;  ///< sums of all columns below each column; only if a matrix has a zero point
  detail::quantized_activations quantized_;  ///< for matrices with integer codes; otherwise empty
};

}  // namespace ecq
