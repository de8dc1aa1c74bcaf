#pragma once
/// \file
/// A writer of containers that works block by block; its memory does not grow with the model, but where matrices have
/// tables of values, by the size of the scales.

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
  std::vector<tensor_declaration> pass_through;  ///< tensors kept as they are; shapes are needed
  string_map metadata;                           ///< metadata of the original, kept unchanged
  /// The header, with its length before it, of the file that decompression gives back: the original's, if that was one
  /// file. It tells the order of the tensors.
  std::span<const std::byte> original_header{};
  std::string tool;      ///< free text
  std::string settings;  ///< free text
};

/// Writes one container. Give it every block and every tensor of its plan once, in any order, then commit. Data lie in
/// the file in that order. To align all elements, as PyTorch requires, write first the tensors of two and more bytes an
/// element, largest elements first, then the blocks, then the tensors of single bytes. In a plan with tables of values,
/// which are FP32, scales wait for the end: their sizes are odd.
class container_writer {
 public:
  /// Opens a temporary file beside `path` (output_file). Errors: errc::invalid_argument names what cannot be written: a
  /// duplicate name, a name or metadata key that the container uses itself, text that is not UTF-8, a shape without a
  /// size.
  static result<container_writer> create(const std::filesystem::path& path, container_plan plan);

  /// Writes block `name` of the plan. `block` must have that block's matrices in the plan's order. Does not look into
  /// the stream.
  result<void> write_block(std::string_view name, packed_block_view block);

  /// Writes a tensor of the plan's pass_through. Calls `release(piece)` for each piece of `bytes` (4 MiB or less) once
  /// it is written, so that the caller can give mapped memory back.
  template <class Release>
  result<void> write_tensor(std::string_view name, std::span<const std::byte> bytes, Release&& release);
  result<void> write_tensor(std::string_view name, std::span<const std::byte> bytes);

  /// Writes header and header checksum, and everything to the disk. Errors: errc::invalid_argument names what is
  /// missing.
  result<void> finish();

  /// Finishes the file, unless that is done, and puts it under its name, once.
  result<void> commit();

  /// Size of the whole file so far, header included.
  std::uint64_t size_bytes() const noexcept { return file_.data_begin() + file_.data_size(); }

 private:
  container_writer(safetensors_writer file, container_plan plan);

  /// Writes late_scales_.
  result<void> write_scales();

  safetensors_writer file_;
  container_plan plan_;
  std::map<std::string, std::size_t, std::less<>> index_;  ///< of blocks by their names
  std::vector<block_description> blocks_;  ///< in the plan's order; blocks already written have matrices
  std::vector<tensor_checksum> checksums_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> late_scales_;  ///< by the names of their tensors
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
