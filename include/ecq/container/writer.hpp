#pragma once
/// \file
/// A writer of containers that works block by block. Its memory does not grow with the model, except by the size of the
/// scales if matrices have tables of values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/description.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "ecq/packed.hpp"

namespace ecq {

/// The names and shapes of everything that a container will hold, known before the first block is compressed.
struct container_plan {
  struct matrix {
    std::string name;
    std::vector<std::uint64_t> shape;
    bool lossless = false;       ///< it will have no scales
    bool zero_point = false;     ///< it may have a zero point
    bool table = false;          ///< its codes will be of dtype::table
    std::uint64_t exact = 0;     ///< number of its exact weights
    std::string element_type{};  ///< packed_matrix::element_type
  };
  struct block {
    std::string name;
    std::vector<matrix> matrices;
  };
  std::vector<block> blocks;
  std::vector<tensor_declaration> pass_through;  ///< tensors stored unchanged; shapes are needed
  string_map metadata;                           ///< metadata of the original, kept unchanged
  /// Header, preceded by its length, of the file that decompression restores: the original's, if that was one file. It
  /// gives the order of the tensors.
  std::span<const std::byte> original_header{};
  std::string tool;      ///< free text
  std::string settings;  ///< free text
};

/// Writer of one container. Write every block and every tensor of the plan once, in any order, then commit. Data lie in
/// the file in that order. To align all elements, as PyTorch requires, first write the tensors with elements of two or
/// more bytes, largest elements first, then the blocks, then the tensors of single bytes. If the plan has tables of
/// values, which are FP32, all scales are written at the end, because their sizes may be odd and would misalign the
/// tables.
class container_writer {
 public:
  /// Opens a temporary file beside `path` (output_file). Errors: errc::invalid_argument names what cannot be written: a
  /// duplicate name, a name or metadata key that the container uses itself, text that is not UTF-8, a shape without a
  /// size.
  static result<container_writer> create(const std::filesystem::path& path, container_plan plan);

  /// Writes block `name` of the plan. `block` must have that block's matrices in the plan's order. Does not check the
  /// stream.
  result<void> write_block(std::string_view name, packed_block_view block);

  /// Writes a tensor of the plan's pass_through. Calls `release(piece)` for each piece of `bytes` (4 MiB or less) once
  /// it is written, so that the caller can give mapped memory back.
  template <class Release>
  result<void> write_tensor(std::string_view name, std::span<const std::byte> bytes, Release&& release);
  result<void> write_tensor(std::string_view name, std::span<const std::byte> bytes);

  /// Writes the header and its checksum, and flushes everything to the disk. Errors: errc::invalid_argument names a
  /// block or tensor that is missing.
  result<void> finish();

  /// Finishes the file, unless that is done, and moves it to its final name. Further calls do nothing.
  result<void> commit();

  /// Returns the size of the whole file so far, header included.
  std::uint64_t size_bytes() const noexcept { return file_.data_begin() + file_.data_size(); }

 private:
  container_writer(safetensors_writer file, container_plan plan);

  /// Writes late_scales_.
  result<void> write_scales();

  safetensors_writer file_;
  container_plan plan_;
  std::map<std::string, std::size_t, std::less<>> index_;  ///< indices of blocks, by their names
  std::vector<block_description> blocks_;  ///< in the plan's order; blocks already written have matrices
  std::vector<tensor_checksum> checksums_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> late_scales_;  ///< not yet written; with tensor names
  bool has_tables_ = false;
  bool finished_ = false;
  bool committed_ = false;
};

template <class Release>
result<void> container_writer::write_tensor(std::string_view name, std::span<const std::byte> bytes,
                                            Release&& release) {
  ECQ_CHECK(file_.begin(name));
  xxh64_hasher hasher;
  while (!bytes.empty()) {
    const auto piece = bytes.first((std::min)(bytes.size(), file_limits::piece_bytes));
    hasher.update(piece);
    ECQ_CHECK(file_.append(piece));
    release(piece);
    bytes = bytes.subspan(piece.size());
  }
  ECQ_CHECK(file_.end());
  checksums_.push_back({std::string(name), hasher.digest()});
  return {};
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/container/writer-inl.hpp"
#endif
