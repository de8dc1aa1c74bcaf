#pragma once
/// \file
/// Which weights are multiplied by one row of activations as they are decoded, without being stored.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"

namespace ecq::detail {

/// How a stream's codes meet activations in the registers in which they are decoded.
enum class fusion : std::uint8_t {
  none,   ///< they are stored first
  codes,  ///< codes, each a symbol
  pairs,  ///< codes in narrow pairs
  bf16    ///< BF16 without loss
};

/// For more rows of activations of FP32, weights are stored in the order of the columns: the activations are reordered
/// as they are copied, which would take twice their memory. By AMX, more rows of BF16 are slower each: all tasks read
/// all of them.
inline constexpr std::size_t most_fused_rows = 256;

/// Weights that are multiplied together. Chunks hold whole groups of them, and so do most rows.
constexpr std::size_t group_of(fusion how) { return how == fusion::pairs ? 256 : 128; }

/// Rows that are no whole groups begin at several places in a group, multiples of the greatest common divisor of both
/// lengths: at this many, at most. For each place, activations have an order of their own, with zeros for the weights
/// of other rows in the groups that a row begins and ends with.
inline constexpr std::size_t most_row_phases = 4;

/// Columns of a row that share a scale consist of whole blocks of so many: each block is met by itself, or, in groups
/// of pairs, in half of every register.
inline constexpr std::size_t block_of_scale = 128;

/// Chunks whose weights are decoded together.
inline constexpr std::size_t weight_chunks = 8;

/// Weights of a row that have one sum: they share a scale, and lie in one chunk.
struct sum_run {
  std::size_t chunk;   ///< of a task
  std::size_t number;  ///< in the chunk
  std::size_t begin;   ///< the place of the first weight in the chunk
  std::size_t column;  ///< of the first weight
  std::size_t count;
  bool ends_scale;  ///< the columns that share the scale end with them
};

/// Calls use(run) for all weights of some chunks in rows of `columns` columns, `of_scale` of which share a scale. The
/// first weight is that of column `first`.
template <class Use>
constexpr void for_each_sum_run(std::size_t first, std::size_t columns, std::size_t of_scale, std::size_t chunks,
                                std::size_t chunk_symbols, Use&& use) {
  std::size_t column = first;
  std::size_t left = (std::min)(of_scale - column % of_scale, columns - column);  // of those that share the scale
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

/// With AVX2, the place of weight number `at` of a group where a weight is a byte: they come as runs of 32.
constexpr std::size_t byte_place_avx2(fusion how, std::size_t at) {
  std::size_t run = at / 64 * 2 + at % 4 / 2;  // of codes: those of two rounds
  std::size_t byte = at % 64 / 4 * 2 + at % 2;
  if (how == fusion::pairs) {  // of pairs: the first or the second ones of two rounds
    run = at / 128 * 4 + at % 8 / 4 * 2 + at % 2;
    byte = at % 128 / 8 * 2 + at % 4 / 2;
  } else if (how == fusion::bf16) {
    run = at / 64 * 2 + at % 32 / 16;
    byte = at % 64 / 32 * 16 + at % 16;
  }
  return 32 * run + byte;
}

/// With AVX2, the place of weight number `at` of a group among the BF16 values of the group: runs of bytes unpack to 16
/// bits within each half of a register.
constexpr std::size_t half_place_avx2(fusion how, std::size_t at) {
  const std::size_t place = byte_place_avx2(how, at);
  return place / 32 * 32 + place % 16 / 8 * 16 + place % 32 / 16 * 8 + place % 8;
}

/// With AVX-512, the place of a column's activation in the order in which weights are met round by round: as many at a
/// time as a register has lanes of 32 bits, whose lower halves come first, then their upper halves.
constexpr std::size_t place_in_rounds(fusion how, std::size_t column) {
  const std::size_t of_lane = group_of(how) / lane_count;
  const std::size_t lane = column % group_of(how) / of_lane;
  return column / group_of(how) * group_of(how) + column % of_lane * 32 + lane % 2 * 16 + lane / 2;
}

/// The same in the order in which kernels of `isa`, AVX2 or AVX-512, meet weights in blocks (block_of_scale). With
/// AVX-512, pairs on a trellis are met so; other weights as above, which is the same for those that are no pairs.
constexpr std::size_t place_met(fusion how, instruction_set isa, std::size_t column) {
  if (isa == instruction_set::avx2) {
    const std::size_t in_group = column % group_of(how);
    const std::size_t half = half_place_avx2(how, in_group);
    return column - in_group + half / 16 * 16 + half % 2 * 8 + half % 16 / 2;
  }
  if (how != fusion::pairs) return place_in_rounds(how, column);
  return column / 64 * 64 + (column % 2 * 2 + column % 4 / 2) * 16 + column % 64 / 4;
}

/// The place of the activation among BF16 values, which meet the halves of such lanes, where `place` is that of
/// place_in_rounds() or place_met().
constexpr std::size_t place_of_half(std::size_t place) { return place / 32 * 32 + place % 16 * 2 + place % 32 / 16; }

/// The place of a column's value in a tile of BF16 values, as kernels of `isa` store them.
constexpr std::size_t place_of_value(fusion how, instruction_set isa, bool in_rounds, std::size_t column) {
  if (isa != instruction_set::avx2) {
    return place_of_half(in_rounds ? place_in_rounds(how, column) : place_met(how, isa, column));
  }
  const std::size_t in_group = column % group_of(how);
  return column - in_group + half_place_avx2(how, in_group);
}

/// The same in a tile of bytes, as kernels of AVX2 store them.
constexpr std::size_t place_of_byte(fusion how, std::size_t column) {
  const std::size_t in_group = column % group_of(how);
  return column - in_group + byte_place_avx2(how, in_group);
}

/// The place of a column's activation among bytes, where integers of pairs are met round by round: a register has both
/// codes of a round of all lanes.
constexpr std::size_t place_of_byte_in_rounds(std::size_t column) {
  const std::size_t in_group = column % group_of(fusion::pairs);
  return column - in_group + in_group % 8 / 2 * 64 + in_group / 8 * 2 + in_group % 2;
}

/// How activations that are no integers lie, once they are ordered for weights in the order in which kernels decode
/// them.
enum class activation_order : std::uint8_t {
  floats,  ///< rows of FP32
  halves,  ///< rows of BF16
  tiles    ///< the same as activation_tiles, for AMX
};

/// How activations of 8 bits lie, once they are ordered for codes in the order in which kernels store them.
enum class integer_order : std::uint8_t {
  columns,     ///< they are not
  rounds,      ///< with AVX-512, bytes in the order of place_of_byte_in_rounds()
  bytes_avx2,  ///< with AVX2, bytes in the order of byte_place_avx2(), for dot products of bytes
  words_avx2   ///< with AVX2, integers of 16 bits in the order of half_place_avx2(), for those of 16 bits
};

/// A row of activations: Activation is float, or std::uint16_t for BF16.
template <class Activation>
struct product_row {
  const Activation* x;   ///< in the order in which they are met
  const float* plain;    ///< in their own order
  std::size_t groups;    ///< of weights
  std::size_t of_scale;  ///< groups that share a scale; the last ones of a row may be fewer
};

/// How far the products of a chunk have come in their row, in groups of as many weights as group_of() says.
struct row_walk {
  std::size_t column = 0;  ///< of the next weights
  std::size_t groups = 0;  ///< left in the sum, those that share a scale
  std::size_t behind = 0;  ///< in the row behind them

  /// Goes to group number `group` of a row, of `weights` weights each.
  template <class Activation>
  void start(const product_row<Activation>& row, std::size_t group, std::size_t weights) {
    column = group * weights;
    groups = (std::min)(row.of_scale - group % row.of_scale, row.groups - group);
    behind = row.groups - group - groups;
  }

  /// Whether the next weights are the first ones of a scale.
  template <class Activation>
  bool at_scale(const product_row<Activation>& row) const {
    const std::size_t rest = row.groups - groups - behind;  // groups of the row before them
    return rest % row.of_scale == 0;
  }

  /// Goes one group on, from the end of a row to the next one, whose activations are the same. Returns whether a sum
  /// has ended.
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
