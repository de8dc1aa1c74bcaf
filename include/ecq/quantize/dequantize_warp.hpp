#pragma once
/// \file
/// How a warp turns the codes of a block's stream into weights: a sink of entropy/chunk_warp.hpp. Same weights as
/// block_decoder::decode.

#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/lanes.hpp"

namespace ecq {

/// A matrix of a block as kernels see it: rows x columns weights, each less than 2^32, whose codes are symbols
/// `first_symbol` and on of the block's stream, row by row.
struct warp_matrix {
  std::uint64_t first_symbol;
  std::uint32_t rows;
  std::uint32_t columns;         ///< at least 1
  std::uint32_t rows_per_group;  ///< at least 1, as columns_per_group
  std::uint32_t columns_per_group;
  std::uint32_t groups_across;
  float zero;    ///< of affine formats: weight = value of the code * scale + zero
  bool affine;   ///< there is a zero point, be it 0: without one -0 stays what it is
  bool by_four;  ///< four weights whose first one's number is a multiple of 4 have one row and scale, and a place that
                 ///< is a multiple of 4
  std::uint64_t first_scale;  ///< of groups_across a row of groups
  std::uint64_t offset;       ///< weight (0, 0) is that element of the output; rows begin `row_stride` elements apart
  std::uint64_t row_stride;

  ECQ_HOST_DEVICE std::uint64_t end() const { return first_symbol + std::uint64_t{rows} * columns; }
};

/// The matrices of a block, and where their weights go.
struct warp_weights {
  const warp_matrix* matrices;  ///< in order of their symbols, which do not overlap
  std::uint32_t count;
  const float* values;          ///< of the 256 codes: infinity where a code is no finite number
  const std::uint16_t* scales;  ///< of all matrices: bits of BF16
  std::byte* out;               ///< aligned to four weights
};

/// Writes weights of type `Output` (float, bf16, fp16) to the matrices of a block. Keeps a place from group to group:
/// one sink serves one chunk, groups ascending.
template <class Warp, class Output>
class warp_weight_sink {
 public:
  using lanes = typename Warp::lanes;

  /// `begin` is the first symbol of the chunk; `raw` holds its raw bits, `raw_bits` (0..8) each.
  ECQ_HOST_DEVICE warp_weight_sink(const warp_weights& weights, std::uint64_t begin, const std::byte* raw,
                                   unsigned raw_bits)
      : to_(weights), begin_(begin), raw_(raw), raw_bits_(raw_bits) {
    std::uint32_t behind = to_.count;
    while (current_ < behind) {
      const std::uint32_t middle = current_ + (behind - current_) / 2;
      if (to_.matrices[middle].end() > begin) {
        behind = middle;
      } else {
        current_ = middle + 1;
      }
    }
  }

  ECQ_HOST_DEVICE void operator()(const lanes& symbols, std::uint32_t group, std::uint32_t left) {
    const lanes codes = raw_bits_ == 0 ? symbols : symbols | spread_raw_bits(group, left);
    const std::uint64_t first = begin_ + std::uint64_t{group} * group_symbols;
    for (; current_ < to_.count && to_.matrices[current_].end() <= first; ++current_) placed_ = false;
    if (current_ == to_.count) return;
    const warp_matrix& matrix = to_.matrices[current_];
    if (matrix.by_four && left == group_symbols && first >= matrix.first_symbol && first + left <= matrix.end()) {
      if (!placed_) place(first - matrix.first_symbol, matrix.columns);
      Warp::each_lane([&](std::uint32_t lane) { write_four(matrix, lane, Warp::at(codes, lane)); });
      return;
    }
    placed_ = false;
    for (std::uint32_t next = current_; next < to_.count && to_.matrices[next].first_symbol < first + left; ++next) {
      Warp::each_lane(
          [&](std::uint32_t lane) { write_some(to_.matrices[next], first, lane, left, Warp::at(codes, lane)); });
    }
  }

  /// Whether a code that was no finite number has come to any lane; all lanes ask together.
  ECQ_HOST_DEVICE bool met_non_finite() const { return Warp::ballot(Warp::below(lanes(0U), bad_)) != 0; }

 private:
  ECQ_HOST_DEVICE lanes spread_raw_bits(std::uint32_t group, std::uint32_t left) const {
    const detail::warp_raw_bits<Warp, 8> kept(raw_, raw_bits_, group, left);
    return kept.of(0, raw_bits_) | (kept.of(1, raw_bits_) << 8) | (kept.of(2, raw_bits_) << 16) |
           (kept.of(3, raw_bits_) << 24);
  }

  ECQ_HOST_DEVICE float value_of(std::uint32_t codes, std::uint32_t number, std::uint32_t lane) {
    const float value = to_.values[codes >> (8 * number) & 0xFFU];
    if (value > bf16::largest) Warp::at(bad_, lane) = 1;
    return value;
  }

  ECQ_HOST_DEVICE static Output weight(const warp_matrix& matrix, float value, float scale) {
    return Output(matrix.affine ? value * scale + matrix.zero : value * scale);
  }

  ECQ_HOST_DEVICE float scale_of(const warp_matrix& matrix, std::uint32_t row, std::uint32_t column) const {
    const std::uint64_t index =
        std::uint64_t{row / matrix.rows_per_group} * matrix.groups_across + column / matrix.columns_per_group;
    return bf16::from_bits(to_.scales[matrix.first_scale + index]);
  }

  ECQ_HOST_DEVICE std::byte* place_of(const warp_matrix& matrix, std::uint32_t row, std::uint32_t column) const {
    return to_.out + (matrix.offset + row * matrix.row_stride + column) * sizeof(Output);
  }

  /// Rows and columns of the lanes' weights in the group whose first weight is number `number` of the current matrix.
  ECQ_HOST_DEVICE void place(std::uint64_t number, std::uint32_t columns) {
    Warp::each_lane([&](std::uint32_t lane) {
      const std::uint64_t own = number + lane * rounds_per_group;
      Warp::at(row_, lane) = static_cast<std::uint32_t>(own / columns);
      Warp::at(column_, lane) = static_cast<std::uint32_t>(own % columns);
    });
    placed_ = true;
  }

  /// The lane's four weights; then its place moves on to the next group.
  ECQ_HOST_DEVICE void write_four(const warp_matrix& matrix, std::uint32_t lane, std::uint32_t codes) {
    std::uint32_t& row = Warp::at(row_, lane);
    std::uint32_t& column = Warp::at(column_, lane);
    const float scale = scale_of(matrix, row, column);
    Output four[rounds_per_group];
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < rounds_per_group; ++i) {
      four[i] = weight(matrix, value_of(codes, i, lane), scale);
    }
    Warp::store_four(place_of(matrix, row, column), four);
    column += group_symbols;
    if (column >= matrix.columns) {
      row += column / matrix.columns;
      column %= matrix.columns;
    }
  }

  /// Those of the lane's four weights that the matrix has, one by one.
  ECQ_HOST_DEVICE void write_some(const warp_matrix& matrix, std::uint64_t first, std::uint32_t lane,
                                  std::uint32_t left, std::uint32_t codes) {
    const std::uint32_t offset = lane * rounds_per_group;
    for (std::uint32_t i = 0; i < rounds_per_group && offset + i < left; ++i) {
      const std::uint64_t symbol = first + offset + i;
      if (symbol < matrix.first_symbol || symbol >= matrix.end()) continue;
      const std::uint64_t number = symbol - matrix.first_symbol;
      const auto row = static_cast<std::uint32_t>(number / matrix.columns);
      const auto column = static_cast<std::uint32_t>(number % matrix.columns);
      const Output one = weight(matrix, value_of(codes, i, lane), scale_of(matrix, row, column));
      Warp::store_one(place_of(matrix, row, column), one);
    }
  }

  warp_weights to_;
  std::uint64_t begin_;
  const std::byte* raw_;
  unsigned raw_bits_;
  std::uint32_t current_ = 0;  ///< the first matrix that does not end before the next group
  bool placed_ = false;        ///< row_ and column_ are those of the next group in the current matrix
  lanes row_ = lanes(0U);
  lanes column_ = lanes(0U);
  lanes bad_ = lanes(0U);  ///< 1 where a code was no finite number
};

}  // namespace ecq
