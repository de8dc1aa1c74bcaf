#pragma once
/// \file
/// A model's tensors, in one file or in many.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// A model's checkpoint: one safetensors file, or several that an index joins (`model.safetensors.index.json`,
/// {"weight_map": {tensor: file}}).
class checkpoint {
 public:
  /// Opens a checkpoint. `path` is a .safetensors file, an index, or a folder that holds one index or else one
  /// .safetensors file. Files that an index names must lie below its folder. Errors name the file or tensor, which is
  /// missing, in two files, or in a file but not in the index; others are those of safetensors_file::open.
  static result<checkpoint> open(const std::filesystem::path& path);

  checkpoint(checkpoint&&) = default;
  checkpoint& operator=(checkpoint&&) = default;

  /// Returns the tensors, in the order of the index or, with a single file, of its data.
  std::span<const tensor_entry> tensors() const noexcept { return tensors_; }

  /// Returns the tensor called `name`, or null.
  const tensor_entry* find(std::string_view name) const noexcept;

  /// Returns the metadata of all files together; if two files have the same key, the first in the order of the index
  /// wins.
  const string_map& metadata() const noexcept { return metadata_; }

  std::span<const safetensors_file> shards() const noexcept { return shards_; }

  /// Returns the folder of the index or, with a single file, of that file.
  std::filesystem::path folder() const;

  /// Returns the files of the checkpoint: the index, if there is one, and the shards.
  std::vector<std::filesystem::path> files() const;

  /// Returns the files that no output may replace: files(), and config.json beside them, which need not exist.
  std::vector<std::filesystem::path> inputs() const;

  /// Returns the total size of all shards, headers included.
  std::uint64_t size_bytes() const noexcept;

  /// Returns the data of one of tensors(), which are little endian and may be unaligned.
  std::span<const std::byte> bytes(const tensor_entry& tensor) const noexcept {
    return shards_[tensor.shard].bytes(tensor);
  }

  /// Gives the memory of a tensor's data, or of `part` of it, back to the system (mapped_file::release).
  void release(const tensor_entry& tensor) const noexcept { shards_[tensor.shard].release(tensor); }
  void release(const tensor_entry& tensor, std::span<const std::byte> part) const noexcept {
    shards_[tensor.shard].release(part);
  }

 private:
  checkpoint() = default;

  static result<checkpoint> open_index(const std::filesystem::path& path);
  void merge_metadata();
  void add_tensor(tensor_entry tensor);

  std::filesystem::path index_path_;  ///< empty for a single file
  std::vector<safetensors_file> shards_;
  std::vector<tensor_entry> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  string_map metadata_;
};

namespace detail {

/// Whether a file of this name in the folder of a model counts as its index or as a file with weights. Hidden files,
/// such as those that hold attributes on file systems without them (._model.safetensors), do not.
inline bool is_index(std::string_view name) {
  return !name.starts_with('.') && name.ends_with(".safetensors.index.json");
}
inline bool is_shard(std::string_view name) { return !name.starts_with('.') && name.ends_with(".safetensors"); }

/// Returns the path of the index, or of the only file, in `folder`.
result<std::filesystem::path> model_in_folder(const std::filesystem::path& folder);

/// Reads an index and returns pairs of tensor and file, in the order of the index. Files must lie below the folder of
/// the index; there may be no more than file_limits::shards of them.
result<string_map> read_index(const std::filesystem::path& path);

/// Smallest number of columns of a stack of matrices, such as experts. Tensors of three dimensions or more with shorter
/// rows are kernels of convolutions.
inline constexpr std::uint64_t least_columns_of_stacks = 256;

/// Whether a tensor is a stack of matrices. Its last two extents are those of each matrix.
constexpr bool is_stack(std::span<const std::uint64_t> shape) noexcept {
  return shape.size() >= 3 && shape.back() >= least_columns_of_stacks;
}

/// Returns the tensor as a matrix of elements of `type` with the extents that as_weights() gives it. `bytes` are the
/// tensor's data; precondition: they hold as many elements as the tensor has.
weights_view as_matrix(const tensor_entry& tensor, dtype type, std::span<const std::byte> bytes);

/// Whether elements of `type` can be read from the bytes of a file without a change of byte order.
constexpr bool readable_in_place(dtype type) noexcept {
  return std::endian::native == std::endian::little || size_of(type) == 1;
}

}  // namespace detail

/// Returns the tensor as a matrix: the first axis gives the rows, all others together the columns; a vector has one
/// column. For a stack of matrices (three dimensions or more, the last of 256 or more), only the last axis gives the
/// columns, and the matrices lie one below the other, because one scale for each matrix would be too coarse. `bytes`
/// are the tensor's data. Errors: errc::unsupported if its type is not a weight format (F32, F16, BF16, F8_E4M3,
/// F8_E5M2), or has more than one byte and this machine is not little endian; errc::invalid_argument for a scalar.
result<weights_view> as_weights(const tensor_entry& tensor, std::span<const std::byte> bytes);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/checkpoint-inl.hpp"
#endif
