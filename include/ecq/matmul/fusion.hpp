#pragma once
/// \file
/// Fusion of decoding with products by one row of activations: which weights are multiplied as they are decoded,
/// without being stored.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"

namespace ecq::detail {

/// Ways in which a stream's codes are multiplied by activations in the registers in which they are decoded.
enum class fusion : std::uint8_t {
  none,   ///< codes are stored first
  codes,  ///< each code is a symbol
  pairs,  ///< codes are in narrow pairs
  bf16    ///< lossless BF16
};

/// Maximum number of rows of activations in FP32 for which weights are in the order in which they are decoded. For more
/// rows, weights are stored in the order of the columns: activations are reordered as they are copied, which would take
/// twice their memory. With AMX, more rows of BF16 would be slower each, since all tasks read all of them.
inline constexpr std::size_t most_fused_rows = 256;

/// Returns the number of weights in a group, which are multiplied together. Chunks consist of whole groups, and so do
/// most rows.
constexpr std::size_t group_of(fusion how) { return how == fusion::pairs ? 256 : 128; }

/// Maximum number of places in a group at which rows begin. Rows that are not whole groups begin at several places,
/// multiples of the greatest common divisor of both lengths. For each place, activations have an order of their own,
/// with zeros for the weights of other rows in the groups in which a row begins and ends.
inline constexpr std::size_t most_row_phases = 4;

/// Number of columns in a block. Columns of a row that share a scale consist of whole blocks. Each block is multiplied
/// separately or, in groups of pairs, in half of every register.
inline constexpr std::size_t block_of_scale = 128;

/// Number of chunks whose weights are decoded together.
inline constexpr std::size_t weight_chunks = 8;

/// Weights of a row that are added up in one sum: they share a scale and lie in one chunk.
struct sum_run {
  std::size_t chunk;   ///< number of the chunk in the task
  std::size_t number;  ///< number of the run in the chunk
  std::size_t begin;   ///< place of the first weight in the chunk
  std::size_t column;  ///< column of the first weight
  std::size_t count;
  bool ends_scale;  ///< the columns that share the scale end with this run
};

/// Calls use(run) for each run of weights in some chunks. Rows have `columns` columns, `of_scale` of which share a
/// scale. The first weight is in column `first`.
template <class Use>
constexpr void for_each_sum_run(std::size_t first, std::size_t columns, std::size_t of_scale, std::size_t chunks,
                                std::size_t chunk_symbols, Use&& use) {
  std::size_t column = first;
  std::size_t left = (std::min)(of_scale - column % of_scale, columns - column);  // columns left that share the scale
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    std::size_t begin = 0;
    for (std::size_t number = 0; begin < chunk_symbols; ++number) {
      const std::size_t count = (std::min)(left, chunk_symbols - begin);
      left -= count;
      use(sum_run{chunk, number, begin, column, count, left == 0});
      begin += count;
      column += count;
      if (left != 0) continue;
      if (column == columns) column = 0;
      left = (std::min)(of_scale, columns - column);
    }
  }
}

/// Returns the place of weight number `at` of a group with AVX2 if weights are bytes, which come in runs of 32.
constexpr std::size_t byte_place_avx2(fusion how, std::size_t at) {
  std::size_t run = at / 64 * 2 + at % 4 / 2;  // of codes: those of two rounds
  std::size_t byte = at % 64 / 4 * 2 + at % 2;
  if (how == fusion::pairs) {  // of pairs: the first or the second codes of two rounds
    run = at / 128 * 4 + at % 8 / 4 * 2 + at % 2;
    byte = at % 128 / 8 * 2 + at % 4 / 2;
  } else if (how == fusion::bf16) {
    run = at / 64 * 2 + at % 32 / 16;
    byte = at % 64 / 32 * 16 + at % 16;
  }
  return 32 * run + byte;
}

/// Returns the place of weight number `at` of a group among the group's BF16 values with AVX2: runs of bytes unpack to
/// 16 bits within each half of a register.
constexpr std::size_t half_place_avx2(fusion how, std::size_t at) {
  const std::size_t place = byte_place_avx2(how, at);
  return place / 32 * 32 + place % 16 / 8 * 16 + place % 32 / 16 * 8 + place % 8;
}

/// Returns the place of a column's activation in the order in which AVX-512 multiplies weights round by round. Each
/// step takes as many weights as a register has lanes of 32 bits: first the lower halves of the lanes, then their upper
/// halves.
constexpr std::size_t place_in_rounds(fusion how, std::size_t column) {
  const std::size_t of_lane = group_of(how) / lane_count;
  const std::size_t lane = column % group_of(how) / of_lane;
  return column / group_of(how) * group_of(how) + column % of_lane * 32 + lane % 2 * 16 + lane / 2;
}

/// Returns the place of a column's activation in the order in which kernels of `isa`, AVX2 or AVX-512, multiply weights
/// in blocks (block_of_scale). With AVX-512, pairs on a trellis have this order; other pairs have that of
/// place_in_rounds(). For weights that are not pairs, both are the same.
constexpr std::size_t place_met(fusion how, instruction_set isa, std::size_t column) {
  if (isa == instruction_set::avx2) {
    const std::size_t in_group = column % group_of(how);
    const std::size_t half = half_place_avx2(how, in_group);
    return column - in_group + half / 16 * 16 + half % 2 * 8 + half % 16 / 2;
  }
  if (how != fusion::pairs) return place_in_rounds(how, column);
  return column / 64 * 64 + (column % 2 * 2 + column % 4 / 2) * 16 + column % 64 / 4;
}

/// Returns the place of an activation among BF16 values, which are multiplied by the halves of 32-bit lanes. `place` is
/// the result of place_in_rounds() or place_met().
constexpr std::size_t place_of_half(std::size_t place) { return place / 32 * 32 + place % 16 * 2 + place % 32 / 16; }

/// Returns the place of a column's value in a tile of BF16 values, as kernels of `isa` store them.
constexpr std::size_t place_of_value(fusion how, instruction_set isa, bool in_rounds, std::size_t column) {
  if (isa != instruction_set::avx2) {
    return place_of_half(in_rounds ? place_in_rounds(how, column) : place_met(how, isa, column));
  }
  const std::size_t in_group = column % group_of(how);
  return column - in_group + half_place_avx2(how, in_group);
}

/// Returns the place of a column's value in a tile of bytes, as kernels of AVX2 store them.
constexpr std::size_t place_of_byte(fusion how, std::size_t column) {
  const std::size_t in_group = column % group_of(how);
  return column - in_group + byte_place_avx2(how, in_group);
}

/// Returns the place of a column's activation among bytes if integers of pairs are multiplied round by round: a
/// register holds both codes of a round of all lanes.
constexpr std::size_t place_of_byte_in_rounds(std::size_t column) {
  const std::size_t in_group = column % group_of(fusion::pairs);
  return column - in_group + in_group % 8 / 2 * 64 + in_group / 8 * 2 + in_group % 2;
}

/// Forms of floating-point activations that have been ordered for weights in the order in which kernels decode them.
enum class activation_order : std::uint8_t {
  floats,  ///< rows of FP32
  halves,  ///< rows of BF16
  tiles    ///< tiles of BF16 (activation_tiles), for AMX
};

/// Orders of 8-bit activations, for codes in the order in which kernels store them.
enum class integer_order : std::uint8_t {
  columns,     ///< the order of the columns
  rounds,      ///< with AVX-512, bytes in the order of place_of_byte_in_rounds()
  bytes_avx2,  ///< with AVX2, bytes in the order of byte_place_avx2(), for dot products of bytes
  words_avx2   ///< with AVX2, 16-bit integers in the order of half_place_avx2(), for dot products of 16-bit integers
};

/// A row of activations. Activation is float, std::uint16_t for BF16, or std::int8_t.
template <class Activation>
struct product_row {
  const Activation* x;   ///< in the order in which weights are multiplied
  const float* plain;    ///< in the order of the columns
  std::size_t groups;    ///< groups of weights in the row
  std::size_t of_scale;  ///< groups that share a scale; the last ones of a row may be fewer
};

/// Progress of a chunk's products in their row, in groups of group_of() weights.
struct row_walk {
  std::size_t column = 0;  ///< column of the next weights
  std::size_t groups = 0;  ///< groups left in the sum, whose weights share a scale
  std::size_t behind = 0;  ///< groups of the row behind these

  /// Goes to group number `group` of a row; groups have `weights` weights each.
  template <class Activation>
  void start(const product_row<Activation>& row, std::size_t group, std::size_t weights) {
    column = group * weights;
    groups = (std::min)(row.of_scale - group % row.of_scale, row.groups - group);
    behind = row.groups - group - groups;
  }

  /// Whether the next weights are the first ones that have their scale.
  template <class Activation>
  bool at_scale(const product_row<Activation>& row) const {
    const std::size_t rest = row.groups - groups - behind;  // groups of the row before the next weights
    return rest % row.of_scale == 0;
  }

  /// Advances by `count` groups, at the end of a row to the next row, which has the same activations. Returns whether a
  /// sum has ended.
  template <class Activation>
  bool advance(const product_row<Activation>& row, std::size_t weights, std::size_t count = 1) {
    column += count * weights;
    groups -= count;
    if (groups != 0) return false;
    if (behind == 0) {
      column = 0;
      behind = row.groups;
    }
    groups = (std::min)(row.of_scale, behind);
    behind -= groups;
    return true;
  }
};

}  // namespace ecq::detail
