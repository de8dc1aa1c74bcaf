#pragma once
/// \file
/// Results of compression: matrices whose codes lie in one entropy-coded stream per block.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecq/format/bf16.hpp"
#include "ecq/format/code_values.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/quantize/granularity.hpp"

namespace ecq {

/// One matrix of a block, without its codes. weight(row, column) = value of the code * scale of its group + zero,
/// except for exact weights. A matrix without groups is lossless: its elements are the weights themselves, in their own
/// format, and it has no scales. A lossless matrix of format uint8 holds the bytes of a tensor of any type: one column,
/// and a row for each byte.
struct packed_matrix {
  std::string name;  ///< unique within a checkpoint; may be empty for a single matrix
  /// Shape of the model's tensor. Unless it is stored as bytes, shape[0] = layout.rows, and the other extents multiply
  /// to layout.columns.
  std::vector<std::uint64_t> shape;
  dtype original = dtype::fp32;    ///< format of the weights before compression
  dtype format = dtype::fp8_e4m3;  ///< number format of the codes; for a lossless matrix, the original format
  group_layout layout;             ///< rows x columns and which of them share a scale
  std::uint64_t first_symbol = 0;  ///< position of element (0, 0) in the block's stream; elements follow row-major
  float zero = 0;                  ///< value of code 0; other than 0 only where the codes' format is_affine
  std::vector<bf16> scales;        ///< layout.count() of them, in group order
  /// Values of codes 0 to 255 if format is dtype::table, with infinity for codes that do not occur; otherwise empty.
  std::vector<float> values{};
  /// Weights that replace the values of their codes, by ascending position; empty if the matrix is lossless.
  std::vector<exact_weight> exact{};
  std::string element_type{};  ///< if stored as bytes: element type of the tensor, as in safetensors files ("I32")

  bool lossless() const noexcept { return layout.rows_per_group == 0; }
  /// Whether the matrix holds the bytes of a tensor, which need not be weights.
  bool is_bytes() const noexcept { return lossless() && format == dtype::uint8; }
  /// Whether the coder sees exponents; otherwise it sees codes or bytes.
  bool codes_exponents() const noexcept { return lossless() && !is_bytes(); }

  /// Returns the number of weights; for bytes, the number of the tensor's elements.
  std::uint64_t weights() const noexcept {
    if (!is_bytes()) return std::uint64_t{layout.rows} * layout.columns;
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : shape) elements *= extent;
    return elements;
  }

  /// Sets the format of the codes to `Format`: by name, or by a table of its values if it has no name in files.
  template <code_format Format>
  void set_format() {
    format = code_dtype_of<Format>;
    values.clear();
    if (format != dtype::table) return;
    const auto table = ecq::values_of_codes<Format>();
    values.assign(table.begin(), table.end());
  }

  /// Returns the size in bytes of scales, values and exact weights in a file.
  std::uint64_t side_bytes() const noexcept;

  /// Returns the values of codes 0 to 255, with infinity for codes that are not finite numbers. Precondition:
  /// block_decoder::open or check_matrices() has accepted this matrix, and it is not lossless.
  std::span<const float, 256> values_of_codes() const {
    if (format == dtype::table) return std::span<const float, 256>(values.data(), 256);
    return ecq::values_of_codes(format);
  }
};

/// Returns the layout of a lossless matrix.
constexpr group_layout without_groups(std::size_t rows, std::size_t columns) noexcept { return {rows, columns, 0, 0}; }

/// Returns a copy of a stack of matrices, such as experts of shape [experts, rows, columns], as one matrix of all their
/// rows, each as long as the last extent. Expert e is then rows e * rows to (e + 1) * rows - 1, by which a matmul_plan
/// can multiply. Put the copy in the place of the original in its block. Returns nothing for bytes, or unless groups of
/// weights divide such a row or consist of whole rows.
std::optional<packed_matrix> with_rows_of_all(const packed_matrix& stack);

/// Matrices and the bytes of their stream (stream/encoded_stream.hpp), owned elsewhere, such as by a mapped file.
struct packed_block_view {
  std::span<const packed_matrix> matrices;
  std::span<const std::byte> stream;
};

/// Matrices of one transformer block, coded jointly with one stream and one frequency table. Each matrix can be decoded
/// on its own.
struct packed_block {
  std::vector<packed_matrix> matrices;
  std::vector<std::byte> stream;

  /// Returns the number of weights of all matrices.
  std::uint64_t weights() const noexcept {
    std::uint64_t sum = 0;
    for (const packed_matrix& matrix : matrices) sum += matrix.weights();
    return sum;
  }
  /// Returns the size in bytes of the whole stream, packed scales, tables of values and exact weights.
  std::uint64_t size_bytes() const noexcept {
    std::uint64_t sum = stream.size();
    for (const packed_matrix& matrix : matrices) sum += matrix.side_bytes();
    return sum;
  }
  /// Returns 8 * size_bytes() / weights(), or 0 without weights.
  double bits_per_weight() const noexcept {
    const std::uint64_t count = weights();
    return count == 0 ? 0.0 : 8.0 * static_cast<double>(size_bytes()) / static_cast<double>(count);
  }

  operator packed_block_view() const noexcept { return {matrices, stream}; }
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/packed-inl.hpp"
#endif
