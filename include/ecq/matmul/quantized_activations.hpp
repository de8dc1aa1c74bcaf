#pragma once
/// \file
/// Rows of activations in 8 bits, with a scale for each row.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/line_vector.hpp"
#include "ecq/matmul/activation_tiles.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/ordered_rows.hpp"

namespace ecq::detail {

/// Returns the bits of max |x|; as integers, they are in the order of magnitudes. If x has NaN or infinity, the result
/// is at least the bits of infinity.
inline std::int32_t largest_magnitude(const float* x, std::size_t count) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    most = (std::max)(most, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU));
  }
  return most;
}

/// Sets q[i] to the integer in -127 ... 127 nearest to x[i] * (127 / max |x|) in FP32, ties to even, and returns the
/// scale max |x| / 127. A row of zeros has scale 0. A row with NaN or infinity becomes zeros, and its scale is NaN.
ECQ_EXACT_FLOAT inline double quantize_row(const float* x, std::size_t count, std::int8_t* q) {
  ECQ_EXACT_FLOAT_BODY
  const std::int32_t most = largest_magnitude(x, count);
  constexpr std::int32_t infinity = 0x7F800000;
  if (most == 0 || most >= infinity) {
    std::fill_n(q, count, std::int8_t{0});
    return most == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  }
  const auto largest = std::bit_cast<float>(most);
  // For a small maximum, the quotient would be infinite. Scaling by a power of two changes nothing else.
  const float up = largest < 0x1p-100F ? 0x1p64F : 1;
  const float factor = 127 / (largest * up);
  // From 2^23 on, FP32 numbers are integers, and their low bits are the last ones of the mantissa. So this sum rounds.
  constexpr float integers = 0x1.8p23F;
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = std::bit_cast<std::uint32_t>(x[i] * up * factor + integers);
    q[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(sum));
  }
  return static_cast<double>(largest) / 127;
}

/// Rows of activations, each an integer q times the scale of its row.
class quantized_activations {
 public:
  /// Makes room for rows x columns. Throws std::bad_alloc.
  void resize(std::size_t rows, std::size_t columns) {
    columns_ = columns;
    stride_ = (columns + 63) / 64 * 64;
    integers_.resize(rows * stride_);
    scales_.resize(rows);
    sums_stride_ = columns / columns_per_sum + 1;
    sums_.resize(rows * sums_stride_);
  }

  /// Quantises x to row `index`.
  void set_row(std::size_t index, const float* x) {
    std::int8_t* const q = integers_.data() + index * stride_;
    scales_[index] = quantize_row(x, columns_, q);
    std::uint32_t* const sums = sums_.data() + index * sums_stride_;
    for (std::size_t i = 1; i < sums_stride_; ++i) {
      std::int32_t some = 0;  // a separate sum, so that compilers vectorise the loop
      for (std::size_t at = 0; at < columns_per_sum; ++at) some += q[(i - 1) * columns_per_sum + at];
      sums[i] = sums[i - 1] + static_cast<std::uint32_t>(some);
    }
  }

  /// Adds a copy of all rows in the order `to`, laid out by order_rows() for groups of `how`. Precondition: `to` is not
  /// integer_order::columns. Throws std::bad_alloc.
  void order_as(integer_order to, fusion how, const row_places& of) {
    order_ = to;
    if (to == integer_order::rounds) {
      constexpr std::size_t pairs = group_of(fusion::pairs) / 2;
      constexpr auto places = [] {
        std::array<std::uint8_t, pairs> made{};
        for (std::size_t i = 0; i < pairs; ++i) made[i] = static_cast<std::uint8_t>(place_of_byte_in_rounds(2 * i));
        return made;
      }();
      return order_by(of, bytes_, [&](const std::int8_t* from, std::int8_t* at) {
        for (std::size_t i = 0; i < pairs; ++i) std::memcpy(at + places[i], from + 2 * i, 2);
      });
    }
    std::array<std::uint8_t, group_of(fusion::pairs)> places{};
    for (std::size_t i = 0; i < of.group; ++i) {
      const bool words = to == integer_order::words_avx2;
      places[i] = static_cast<std::uint8_t>(words ? half_place_avx2(how, i) : byte_place_avx2(how, i));
    }
    const auto place_all = [&]<class Integer>(const std::int8_t* from, Integer* at) {
      for (std::size_t i = 0; i < of.group; ++i) at[places[i]] = static_cast<Integer>(int{from[i]});
    };
    if (to == integer_order::words_avx2) return order_by(of, words_, place_all);
    order_by(of, bytes_, place_all);
  }

  /// Adds a copy of all rows as tiles: in the order order(), one set of rows for each place of `of`; or, if order() is
  /// integer_order::columns, rows as they are. Throws std::bad_alloc.
  void make_tiles(const row_places& of) {
    const bool plain = order_ == integer_order::columns;
    const std::size_t sets = plain ? 1 : of.phases, stride = plain ? stride_ : ordered_stride_;
    tiles_.resize(sets, scales_.size(), stride / sizeof(std::uint32_t));
    for (std::size_t set = 0; set < sets; ++set) {
      for (std::size_t first = 0; first < scales_.size(); first += activation_tiles::rows_together) {
        const std::size_t count = (std::min)(activation_tiles::rows_together, scales_.size() - first);
        tiles_.set_rows(set, first, 0, count, plain ? row(first) : ordered_bytes(first, set), stride);
      }
    }
  }

  bool empty() const noexcept { return scales_.empty(); }
  std::size_t columns() const noexcept { return columns_; }
  const activation_tiles& tiles() const noexcept { return tiles_; }
  integer_order order() const noexcept { return order_; }
  const std::int8_t* row(std::size_t index) const noexcept { return integers_.data() + index * stride_; }
  std::size_t stride() const noexcept { return stride_; }
  /// Returns a row in the order order(), for rows of weights that begin at place number `phase` of a group: as bytes,
  /// or by ordered_words() as words.
  const std::int8_t* ordered_bytes(std::size_t index, std::size_t phase) const noexcept {
    return bytes_.data() + (phase * scales_.size() + index) * ordered_stride_;
  }
  const std::int16_t* ordered_words(std::size_t index, std::size_t phase) const noexcept {
    return words_.data() + (phase * scales_.size() + index) * ordered_stride_;
  }
  std::size_t ordered_stride() const noexcept { return ordered_stride_; }
  const double* scales() const noexcept { return scales_.data(); }  ///< one for each row

  /// Returns the sum of the integers of `count` columns, at most 2^24, from `first` on.
  std::int32_t sum(std::size_t index, std::size_t first, std::size_t count) const noexcept {
    return static_cast<std::int32_t>(sum_below(index, first + count) - sum_below(index, first));
  }

  /// Sets to[i] to the quantised activation i of the row, in FP32.
  void dequantize_row(std::size_t index, float* to) const {
    for (std::size_t i = 0; i < columns_; ++i) to[i] = static_cast<float>(row(index)[i] * scales_[index]);
  }

 private:
  static constexpr std::size_t columns_per_sum = 32;

  template <class Integer, class Place>
  void order_by(const row_places& of, line_vector<Integer>& to, const Place& place) {
    ordered_stride_ = of.ordered_columns();
    to.resize(of.phases * scales_.size() * ordered_stride_);
    order_rows<std::int8_t>(
        of, scales_.size(), [&](std::size_t index) { return row(index); },
        [&](const std::int8_t* from, std::size_t at) { place(from, &to[at]); });
  }

  /// Returns the sum of the integers of the first `columns` columns, modulo 2^32.
  std::uint32_t sum_below(std::size_t index, std::size_t columns) const noexcept {
    std::uint32_t sum = sums_[index * sums_stride_ + columns / columns_per_sum];
    const std::int8_t* const q = row(index);
    for (std::size_t i = columns / columns_per_sum * columns_per_sum; i < columns; ++i) {
      sum += static_cast<std::uint32_t>(q[i]);
    }
    return sum;
  }

  std::size_t columns_ = 0;
  std::size_t stride_ = 0;
  integer_order order_ = integer_order::columns;
  std::size_t ordered_stride_ = 0;
  line_vector<std::int8_t> integers_;
  line_vector<std::int8_t> bytes_;
  line_vector<std::int16_t> words_;
  activation_tiles tiles_;
  std::vector<double> scales_;
  std::size_t sums_stride_ = 0;
  std::vector<std::uint32_t> sums_;  ///< running sums, one for every columns_per_sum columns
};

/// out[b] = scales[b] * (sums[b] + zero * activations[b]).
ECQ_EXACT_FLOAT inline void finish_products(const double* sums, double zero, const double* activations,
                                            const double* scales, std::size_t batch, float* out) {
  ECQ_EXACT_FLOAT_BODY
  for (std::size_t b = 0; b < batch; ++b) {
    out[b] = static_cast<float>(scales[b] * (sums[b] + zero * activations[b]));
  }
}

}  // namespace ecq::detail
