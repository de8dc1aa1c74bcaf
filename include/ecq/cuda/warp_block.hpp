#pragma once
/// \file
/// The matrices of a block as quantize/dequantize_warp.hpp reads them, and their places in a buffer.

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/dequantize_warp.hpp"

namespace ecq {

/// The place of a matrix in a buffer for all matrices of a block: weight (0, 0) is element `offset` of the buffer, and
/// rows begin `row_stride` elements apart.
struct matrix_place {
  std::uint64_t offset = 0;
  std::uint64_t row_stride = 0;

  bool operator==(const matrix_place&) const = default;
};

/// Returns places for row-major matrices without gaps, one after another in the order of `matrices`, each beginning at
/// a multiple of 256 elements. The shapes must have been checked against a stream (block_decoder::open). Throws
/// std::bad_alloc.
inline std::vector<matrix_place> dense_places(std::span<const packed_matrix> matrices) {
  std::vector<matrix_place> places;
  std::uint64_t end = 0;
  for (const packed_matrix& matrix : matrices) {
    const std::uint64_t offset = (end + 255) / 256 * 256;
    places.push_back({offset, matrix.layout.columns});
    end = offset + std::uint64_t{matrix.layout.rows} * matrix.layout.columns;
  }
  return places;
}

/// Returns the number of elements of a buffer with room for `matrices` at `places`, one for each. Errors:
/// invalid_argument for another number of places, for a row stride shorter than the matrix's rows, and for ends beyond
/// 2^60, so that the number of bytes fits in 64 bits.
inline result<std::uint64_t> elements_at(std::span<const packed_matrix> matrices,
                                         std::span<const matrix_place> places) {
  if (places.size() != matrices.size()) {
    return error(errc::invalid_argument, places.size(), " places for a block of ", matrices.size(), " matrices");
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const std::uint64_t rows = matrices[i].layout.rows;
    const std::uint64_t columns = matrices[i].layout.columns;
    const auto& [offset, stride] = places[i];
    if ((rows == 0 || columns == 0) && offset <= most) continue;
    if (rows == 0 || stride < columns || offset > most - columns || (rows - 1) > (most - columns - offset) / stride) {
      return error(errc::invalid_argument, "matrix ", i, " '", matrices[i].name, "': rows of ", columns,
                   " weights do not fit with a stride of ", stride, " elements from element ", offset, " on");
    }
    end = (std::max)(end, offset + (rows - 1) * stride + columns);
  }
  return end;
}

namespace detail {

/// Returns the value of warp_matrix::by_four that follows from the other members.
inline bool goes_by_four(const warp_matrix& matrix) noexcept {
  constexpr std::uint32_t most = (std::numeric_limits<std::uint32_t>::max)();
  const bool groups = matrix.columns_per_group % 4 == 0 || matrix.columns_per_group >= matrix.columns;
  return groups && matrix.first_symbol % 4 == 0 && matrix.columns % 4 == 0 && matrix.offset % 4 == 0 &&
         matrix.row_stride % 4 == 0 && matrix.columns <= most - group_symbols;  // a lane's column may be a group beyond
}

}  // namespace detail

/// Rows of a matrix, as one or two matrices.
struct warp_rows {
  warp_matrix pieces[2] = {};
  std::uint32_t count = 0;
};

/// Returns rows first, ..., first + rows - 1 of `matrix`, which must have them; the first one is at element 0 of the
/// output. There are two pieces if the first row lies within a group of rows that share scales and the last row in
/// another group.
inline warp_rows rows_of(const warp_matrix& matrix, std::uint32_t first, std::uint32_t rows) noexcept {
  warp_rows found;
  for (std::uint32_t done = 0; done < rows; ++found.count) {
    const std::uint32_t row = first + done;
    const std::uint32_t within = row % matrix.rows_per_group;
    warp_matrix& piece = found.pieces[found.count];
    piece = matrix;
    piece.first_symbol += std::uint64_t{row} * matrix.columns;
    piece.rows = within == 0 ? rows - done : (std::min)(rows - done, matrix.rows_per_group - within);
    piece.first_scale += std::uint64_t{row / matrix.rows_per_group} * matrix.groups_across;
    piece.offset = done * matrix.row_stride;
    piece.by_four = detail::goes_by_four(piece);
    done += piece.rows;
  }
  return found;
}

/// A block of quantised matrices as sinks need it.
struct warp_block {
  std::array<float, 256> values{};    ///< values of the 256 codes; infinity if a code is not a finite number
  std::vector<warp_matrix> matrices;  ///< matrices with weights, in order of their symbols
  std::vector<std::uint16_t> scales;  ///< scales of all matrices, as bits of BF16

  /// Makes a block of `matrices`, which must have been checked against their stream (block_decoder::open), at `places`,
  /// which elements_at must have checked. Errors: unsupported for lossless matrices, for matrices of several formats or
  /// with shared symbols, and for 2^32 rows or columns; out_of_memory.
  static result<warp_block> of(std::span<const packed_matrix> matrices, std::span<const matrix_place> places) {
    return detail::or_out_of_memory("the matrices of a block", [&]() -> result<warp_block> {
      warp_block block;
      for (std::size_t i = 0; i < matrices.size(); ++i) {
        ECQ_CHECK(block.add(matrices[i], places[i], matrices[0], i));
      }
      std::sort(block.matrices.begin(), block.matrices.end(),
                [](const warp_matrix& a, const warp_matrix& b) { return a.first_symbol < b.first_symbol; });
      for (std::size_t i = 1; i < block.matrices.size(); ++i) {
        if (block.matrices[i - 1].end() <= block.matrices[i].first_symbol) continue;
        return error(errc::unsupported, "matrices share symbol ", block.matrices[i].first_symbol);
      }
      if (!matrices.empty()) std::ranges::copy(matrices[0].values_of_codes(), block.values.begin());
      return block;
    });
  }

  /// Whether all of `codes` are finite numbers.
  bool finite(const std::bitset<256>& codes) const noexcept {
    for (std::size_t code = 0; code < values.size(); ++code) {
      if (codes[code] && !(std::fabs(values[code]) <= (std::numeric_limits<float>::max)())) return false;
    }
    return true;
  }

 private:
  result<void> add(const packed_matrix& from, const matrix_place& place, const packed_matrix& first,
                   std::size_t index) {
    const auto unsupported = [&](const char* why) {
      return error(errc::unsupported, "matrix ", index, " '", from.name, "': ", why);
    };
    const group_layout& layout = from.layout;
    constexpr std::size_t most = (std::numeric_limits<std::uint32_t>::max)();
    if (from.lossless()) return unsupported("lossless");
    if (from.format != first.format || from.values != first.values) {
      return unsupported("its format differs from that of the first matrix");
    }
    if (layout.rows > most || layout.columns > most) return unsupported("2^32 or more rows or columns");
    if (layout.rows == 0 || layout.columns == 0) return {};
    matrices.push_back({.first_symbol = from.first_symbol,
                        .rows = static_cast<std::uint32_t>(layout.rows),
                        .columns = static_cast<std::uint32_t>(layout.columns),
                        .rows_per_group = static_cast<std::uint32_t>((std::min)(layout.rows_per_group, most)),
                        .columns_per_group = static_cast<std::uint32_t>((std::min)(layout.columns_per_group, most)),
                        .groups_across = static_cast<std::uint32_t>(layout.groups_across()),
                        .zero = from.zero,
                        .affine = is_affine(from.format),
                        .by_four = false,
                        .first_scale = scales.size(),
                        .offset = place.offset,
                        .row_stride = place.row_stride});
    matrices.back().by_four = detail::goes_by_four(matrices.back());
    for (const bf16 scale : from.scales) scales.push_back(scale.bits);
    return {};
  }
};

}  // namespace ecq
