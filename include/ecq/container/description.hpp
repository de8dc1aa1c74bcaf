#pragma once
/// \file
/// A container's description of itself: the JSON text under the metadata key `ecq` (docs/format.md, "Container on
/// disk").

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/packed.hpp"

namespace ecq {

/// Key in `__metadata__` of the JSON text that describes a container.
inline constexpr std::string_view container_metadata_key = "ecq";
/// Name of the tensor that holds the checksum of the header.
inline constexpr std::string_view header_checksum_name = "ecq.header_checksum";
/// Name of the tensor that holds the header of the file that was compressed.
inline constexpr std::string_view original_header_name = "ecq.original_header";
/// Version of the containers that this library writes, and the only one it reads.
inline constexpr std::uint64_t container_version = 1;

/// Returns the name of the U8 tensor that holds a block's stream.
inline std::string stream_tensor_name(std::string_view block) { return std::string(block) + ".ecq_stream"; }

/// Returns the name of the tensor that holds a matrix's scales.
inline std::string scale_tensor_name(std::string_view matrix) { return std::string(matrix) + ".ecq_scale"; }

/// Returns the name of the F32 tensor that holds the values of a matrix's codes if its format is dtype::table.
inline std::string value_tensor_name(std::string_view matrix) { return std::string(matrix) + ".ecq_values"; }

/// Returns the name of the U8 tensor that holds a matrix's exact weights, if it has any.
inline std::string exact_tensor_name(std::string_view matrix) { return std::string(matrix) + ".ecq_exact"; }

/// A block: a stream and the matrices whose codes lie in it.
struct block_description {
  std::string name;
  std::uint64_t symbols = 0;            ///< codes in the stream
  std::vector<packed_matrix> matrices;  ///< without their scales, values and exact weights
  std::vector<std::uint64_t> exact{};   ///< for each matrix, the number of its exact weights; or empty if none has any

  /// Returns the number of exact weights of a matrix.
  std::uint64_t exact_of(std::size_t matrix) const noexcept { return exact.empty() ? 0 : exact[matrix]; }
};

/// The checksum that the bytes of a tensor must have.
struct tensor_checksum {
  std::string tensor;
  std::uint64_t value = 0;  ///< XXH64 of the tensor's data, seed 0
};

/// A container's description of itself, in addition to the shapes of its tensors.
struct container_description {
  std::string tool;      ///< which tool wrote the file; free text
  std::string settings;  ///< how it was written; free text
  std::vector<block_description> blocks;
  std::vector<tensor_checksum> checksums;  ///< one for every tensor but ecq.header_checksum
};

/// Returns the number of columns of a matrix of this shape, which has shape[0] rows, or nothing if the shape has no
/// dimensions or rows x columns exceed 63 bits.
constexpr std::optional<std::uint64_t> matrix_columns(std::span<const std::uint64_t> shape) noexcept {
  constexpr auto largest = static_cast<std::uint64_t>((std::numeric_limits<std::ptrdiff_t>::max)());
  if (shape.empty() || shape[0] > largest) return std::nullopt;
  std::uint64_t columns = 1;
  for (const std::uint64_t extent : shape.subspan(1)) {
    if (extent != 0 && columns > largest / extent) return std::nullopt;
    columns *= extent;
  }
  if (shape[0] != 0 && columns > largest / shape[0]) return std::nullopt;
  return columns;
}

/// Returns the rows and columns of a matrix, which follow from its shape and element type, or nothing if these are not
/// valid (matrix_columns, tensor_bytes).
std::optional<std::pair<std::uint64_t, std::uint64_t>> rows_and_columns(const packed_matrix& matrix) noexcept;

/// Checks that the shapes, layouts and formats of the matrices make sense and that each matrix has its own part of the
/// block's symbols; otherwise returns errc::corrupt, naming the matrix. Does not check scales, values and exact
/// weights, except for the number of exact weights.
result<void> check_block(const block_description& block);

/// Returns the JSON text of `description`, which is the same for equal descriptions. Precondition: all texts are UTF-8.
std::string to_json(const container_description& description);

/// Reads and checks the JSON text. Errors: errc::unsupported for another version or an unknown key, errc::corrupt for
/// anything that breaks a rule: wrong types, missing keys, the errors of check_block, a duplicate matrix or block.
result<container_description> parse_description(std::string_view text);

namespace detail {

/// Returns `value` as 16 hexadecimal digits, the highest first.
std::string hex64(std::uint64_t value);

/// Fails with errc::corrupt if two blocks or two matrices have the same name.
result<void> check_unique_names(const container_description& description);

}  // namespace detail

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/container/description-inl.hpp"
#endif
