#pragma once
/// \file
/// A sink (entropy/chunk_warp.hpp) with which a warp turns the codes of a block's stream into the same weights as
/// block_decoder::decode.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_warp.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "ecq/stream/element_warp.hpp"

namespace ecq {

/// A matrix of a block as kernels see it: rows x columns weights, both below 2^32, whose codes are the symbols of the
/// block's stream from `first_symbol` on, row by row.
struct warp_matrix {
  std::uint64_t first_symbol;
  std::uint32_t rows;
  std::uint32_t columns;         ///< at least 1
  std::uint32_t rows_per_group;  ///< at least 1, and so is columns_per_group
  std::uint32_t columns_per_group;
  std::uint32_t groups_across;
  float zero;    ///< of affine formats: weight = value of the code * scale + zero
  bool affine;   ///< the format has a zero point, possibly 0; without one, -0 stays -0
  bool by_four;  ///< any four weights, the first with a number that is a multiple of 4, share a row and a scale, and
                 ///< their place in the output is a multiple of 4
  std::uint64_t first_scale;  ///< number of the first scale; each row of groups has groups_across scales
  std::uint64_t offset;       ///< element of the output for weight (0, 0); rows begin `row_stride` elements apart
  std::uint64_t row_stride;

  ECQ_HOST_DEVICE std::uint64_t end() const { return first_symbol + std::uint64_t{rows} * columns; }
};

/// Matrices of a block, and the output for their weights.
struct warp_weights {
  const warp_matrix* matrices;  ///< in order of their symbols, which do not overlap
  std::uint32_t count;
  const float* values;          ///< values of the 256 codes; infinity where a code is not a finite number
  const std::uint16_t* scales;  ///< scales of all matrices, as bits of BF16
  std::byte* out;               ///< aligned to four weights
  bool finite = false;          ///< all symbols that a chunk can decode to are finite numbers, so none is checked
};

/// Sink that writes weights of type `Output` (float, bf16, fp16) to the matrices of a block. It keeps its place from
/// group to group, so it serves one chunk and takes groups in ascending order.
template <lockstep_warp Warp, class Output>
class warp_weight_sink {
 public:
  using lanes = typename Warp::lanes;

  /// `begin` is the first symbol of the chunk; `raw` holds its raw bits, `raw_bits` (0..8) per symbol, and is readable
  /// stream_tail_bytes beyond them. With a trellis, symbols are indices, whose codes become weights.
  ECQ_HOST_DEVICE warp_weight_sink(const warp_weights& weights, std::uint64_t begin, const std::byte* raw,
                                   unsigned raw_bits, const trellis& walk = {0, 0})
      : to_(weights), begin_(begin), raw_(raw), raw_bits_(raw_bits), trellis_(walk) {
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

  /// Makes later calls write only symbols first, first + 1, ..., last - 1 of the chunk. They must not precede those of
  /// earlier calls.
  ECQ_HOST_DEVICE void limit(std::uint32_t first, std::uint32_t last) {
    lowest_ = first;
    behind_ = last;
    groups_ = 0;
    plain_ = plain_done_ = 0;
  }

  ECQ_HOST_DEVICE void operator()(const lanes& symbols, std::uint32_t group, std::uint32_t left) {
    const lanes codes = symbols_are_codes() ? symbols : completed(symbols, group, left);
    end_plain_groups();
    if (groups_ == 0) begin_run(begin_ + std::uint64_t{group} * group_symbols);
    if (groups_ != 0 && left == group_symbols) {
      --groups_;
      Warp::each_lane([&](std::uint32_t lane) {
        if (Warp::at(column_, lane) >= Warp::at(limit_, lane)) settle(lane);
        const std::uint32_t own = Warp::at(codes, lane);
        std::uint64_t& place = Warp::at(place_, lane);
        write_four(place, [&](std::uint32_t i) {
          const float product = Warp::multiply(value_of(own >> (8 * i) & 0xFFU, lane), scale_of_lane(lane));
          return affine_ != 0 ? product + zero_ : product;
        });
        Warp::at(column_, lane) += group_symbols;
        place += group_bytes;
      });
      return;
    }
    const std::uint64_t first = begin_ + std::uint64_t{group} * group_symbols;
    for (std::uint32_t next = current_; next < to_.count && to_.matrices[next].first_symbol < first + left; ++next) {
      Warp::each_lane(
          [&](std::uint32_t lane) { write_some(to_.matrices[next], first, lane, left, Warp::at(codes, lane)); });
    }
  }

  /// Takes a whole group whose symbols are byte `Byte` of each lane's four values (value_sink).
  template <unsigned Byte>
  ECQ_HOST_DEVICE void take(const lanes (&found)[4], std::uint32_t group) {
    if (plain_done_ == plain_) {
      (*this)(detail::packed<Warp, Byte>(found), group, group_symbols);
      if (symbols_are_codes() && to_.finite) begin_plain_groups();
      return;
    }
    const auto write = [&](auto affine) {
      Warp::each_lane([&](std::uint32_t lane) {
        const std::uint64_t place = Warp::at(place_, lane) + plain_done_ * group_bytes;
        write_four(place, [&](std::uint32_t i) {
          const float value = to_.values[Warp::at(found[i], lane) >> (8 * Byte) & 0xFFU];
          const float product = Warp::multiply(value, scale_of_lane(lane));
          return decltype(affine)::value ? product + zero_ : product;
        });
      });
    };
    if (affine_ != 0) {
      write(std::true_type());
    } else {
      write(std::false_type());
    }
    ++plain_done_;
  }

  /// Whether any lane has met a code that is not a finite number; all lanes call it together.
  ECQ_HOST_DEVICE bool met_non_finite() const {
    constexpr std::uint32_t infinity = 0x7F800000U;
    return Warp::ballot(Warp::below(lanes(infinity), zeros_ & 0x7FFFFFFFU)) != 0;
  }

 private:
  ECQ_HOST_DEVICE bool symbols_are_codes() const { return raw_bits_ == 0 && !trellis_.walks(); }

  /// Returns the codes of symbols that have raw bits or lie on a trellis.
  ECQ_HOST_DEVICE lanes completed(lanes codes, std::uint32_t group, std::uint32_t left) {
    // Symbols of pairs can be any codes, so raw bits are added to them.
    if (raw_bits_ != 0) codes = detail::with_raw_bits<Warp>(codes, spread_raw_bits(group, left));
    return trellis_.walks() ? trellis_(codes, group) : codes;
  }

  ECQ_HOST_DEVICE lanes spread_raw_bits(std::uint32_t group, std::uint32_t left) const {
    // A group has at most 128 bytes, which is no more than stream_tail_bytes.
    const detail::warp_raw_bits<Warp, 8> kept(raw_, raw_bits_, group, left, left == group_symbols ? 1U : 0U);
    return kept.of(0, raw_bits_) | (kept.of(1, raw_bits_) << 8) | (kept.of(2, raw_bits_) << 16) |
           (kept.of(3, raw_bits_) << 24);
  }

  ECQ_HOST_DEVICE float value_of(std::uint32_t code, std::uint32_t lane) {
    const float value = to_.values[code];
    // Becomes NaN, and stays so, once a value is infinite. A device has more room for this than for a comparison.
    const std::uint32_t before = Warp::at(zeros_, lane);
    const float zero = value * 0.0F + __builtin_bit_cast(float, before);
    Warp::at(zeros_, lane) = __builtin_bit_cast(std::uint32_t, zero);
    return value;
  }

  ECQ_HOST_DEVICE float scale_of(const warp_matrix& matrix, std::uint32_t row, std::uint32_t column) const {
    const std::uint64_t index =
        std::uint64_t{row / matrix.rows_per_group} * matrix.groups_across + column / matrix.columns_per_group;
    return bf16::from_bits(to_.scales[matrix.first_scale + index]);
  }

  ECQ_HOST_DEVICE static std::uint64_t place_of(const warp_matrix& matrix, std::uint32_t row, std::uint32_t column) {
    return (matrix.offset + row * matrix.row_stride + column) * sizeof(Output);
  }

  /// Looks for whole groups of one matrix, from symbol `first` on, in which each lane can write its four weights at
  /// once.
  ECQ_HOST_DEVICE void begin_run(std::uint64_t first) {
    while (current_ < to_.count && to_.matrices[current_].end() <= first) ++current_;
    if (current_ == to_.count) return;
    const warp_matrix& matrix = to_.matrices[current_];
    if (!matrix.by_four || first < matrix.first_symbol || first < begin_ + lowest_) return;
    const std::uint64_t limit = begin_ + behind_;
    const std::uint64_t groups = ((matrix.end() < limit ? matrix.end() : limit) - first) / group_symbols;
    if (groups == 0) return;
    groups_ = static_cast<std::uint32_t>(groups < most_groups ? groups : most_groups);
    affine_ = Warp::uniform(matrix.affine ? 1U : 0U);
    zero_ = matrix.zero;
    Warp::each_lane([&](std::uint32_t lane) {
      const std::uint64_t own = first - matrix.first_symbol + lane * rounds_per_group;
      Warp::at(row_, lane) = static_cast<std::uint32_t>(own / matrix.columns);
      Warp::at(column_, lane) = static_cast<std::uint32_t>(own % matrix.columns);
      Warp::at(limit_, lane) = 0;
    });
  }

  /// Counts the groups, from the next one on, in which no lane comes to the end of its row or group of weights.
  ECQ_HOST_DEVICE void begin_plain_groups() {
    lanes whole(0U);
    Warp::each_lane([&](std::uint32_t lane) {
      const std::uint32_t column = Warp::at(column_, lane);
      const std::uint32_t limit = Warp::at(limit_, lane);
      Warp::at(whole, lane) = column < limit ? (limit - column - 1) / group_symbols + 1 : 0U;
    });
    const std::uint32_t fewest = Warp::least(whole);
    plain_ = fewest < groups_ ? fewest : groups_;
  }

  ECQ_HOST_DEVICE void end_plain_groups() {
    if (plain_done_ == 0) return;
    groups_ -= plain_done_;
    column_ = column_ + lanes(plain_done_ * group_symbols);
    Warp::each_lane([&](std::uint32_t lane) { Warp::at(place_, lane) += plain_done_ * group_bytes; });
    plain_ = plain_done_ = 0;
  }

  /// Finds the place and scale of the lane's next four weights once their column has reached the end of the row or of
  /// the group of weights.
  ECQ_HOST_DEVICE void settle(std::uint32_t lane) {
    const warp_matrix& matrix = to_.matrices[current_];
    std::uint32_t& row = Warp::at(row_, lane);
    std::uint32_t& column = Warp::at(column_, lane);
    row += column / matrix.columns;
    column %= matrix.columns;
    Warp::at(place_, lane) = Warp::origin_of(to_.out) + place_of(matrix, row, column);
    const float scale = scale_of(matrix, row, column);
    Warp::at(scale_, lane) = __builtin_bit_cast(std::uint32_t, scale);
    const std::uint64_t end = (column / matrix.columns_per_group + std::uint64_t{1}) * matrix.columns_per_group;
    Warp::at(limit_, lane) = end < matrix.columns ? static_cast<std::uint32_t>(end) : matrix.columns;
  }

  ECQ_HOST_DEVICE float scale_of_lane(std::uint32_t lane) const {
    const std::uint32_t bits = Warp::at(scale_, lane);  // nvcc fails on a cast of the result of `at`
    return __builtin_bit_cast(float, bits);
  }

  /// Writes four weights, weight(0), ..., weight(3), to their place.
  template <class Weight>
  ECQ_HOST_DEVICE void write_four(std::uint64_t place, Weight&& weight) {
    float four[rounds_per_group];
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < rounds_per_group; ++i) four[i] = weight(i);
    Warp::template store_four<Output>(to_.out, place, four);
  }

  /// Writes, one by one, those of the lane's four weights that belong to the matrix.
  ECQ_HOST_DEVICE void write_some(const warp_matrix& matrix, std::uint64_t first, std::uint32_t lane,
                                  std::uint32_t left, std::uint32_t codes) {
    const std::uint32_t offset = lane * rounds_per_group;
    for (std::uint32_t i = 0; i < rounds_per_group && offset + i < left; ++i) {
      const std::uint64_t symbol = first + offset + i;
      if (symbol < matrix.first_symbol || symbol >= matrix.end()) continue;
      if (symbol - begin_ < lowest_ || symbol - begin_ >= behind_) continue;
      const std::uint64_t number = symbol - matrix.first_symbol;
      const auto row = static_cast<std::uint32_t>(number / matrix.columns);
      const auto column = static_cast<std::uint32_t>(number % matrix.columns);
      const float value = value_of(codes >> (8 * i) & 0xFFU, lane);
      const float weight = Warp::multiply(value, scale_of(matrix, row, column));
      Warp::store_one(to_.out + place_of(matrix, row, column),
                      nearest_finite<Output>(matrix.affine ? weight + matrix.zero : weight));
    }
  }

  warp_weights to_;
  std::uint64_t begin_;
  const std::byte* raw_;
  unsigned raw_bits_;
  std::uint32_t lowest_ = 0;  ///< symbols lowest_ ... behind_ - 1 of the chunk are written
  std::uint32_t behind_ = ~0U;
  std::uint32_t current_ = 0;  ///< the first matrix that does not end before the next group
  /// Number of groups, from the next one on, that lie in the current matrix and are written four weights at a time. If
  /// there are any, the members below hold all that these groups need, so the matrix is not read again before a row or
  /// a group of weights ends.
  std::uint32_t groups_ = 0;
  /// Number of these groups that need nothing but their codes, and how many of those are done. groups_, column_ and
  /// place_ are only updated after the last of them.
  std::uint32_t plain_ = 0;
  std::uint32_t plain_done_ = 0;
  static constexpr std::uint32_t most_groups = 0x7FFFFFFF;
  static constexpr std::uint64_t group_bytes = group_symbols * sizeof(Output);
  std::uint32_t affine_ = 0;
  float zero_ = 0;
  lanes row_ = lanes(0U);
  lanes column_ = lanes(0U);  ///< may have reached or passed the row's end
  lanes limit_ = lanes(0U);   ///< first column for which scale_ and place_ no longer hold
  lanes scale_ = lanes(0U);   ///< bits of a float
  typename Warp::wide_lanes place_{};
  lanes zeros_ = lanes(0U);  ///< bits of a float: 0, or NaN where a code was not a finite number
  warp_trellis<Warp> trellis_;
};

}  // namespace ecq
