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
  /// .safetensors file. Files that an index names must lie below its folder. Errors name the file or tensor: missing,
  /// in two files, in a file but not in the index, or what safetensors_file::open finds.
  static result<checkpoint> open(const std::filesystem::path& path);

  checkpoint(checkpoint&&) = default;
  checkpoint& operator=(checkpoint&&) = default;

  /// The tensors, in the order of the index or, with a single file, of its data.
  std::span<const tensor_entry> tensors() const noexcept { return tensors_; }

  /// The tensor called `name`, or null.
  const tensor_entry* find(std::string_view name) const noexcept;

  /// The metadata of all files together; if two files have the same key, the first in the order of the index wins.
  const string_map& metadata() const noexcept { return metadata_; }

  std::span<const safetensors_file> shards() const noexcept { return shards_; }

  /// Where the index or, with a single file, the file lies.
  std::filesystem::path folder() const;

  /// The files that the checkpoint consists of: the index, if there is one, and the shards.
  std::vector<std::filesystem::path> files() const;

  /// What no output may replace: these files, and config.json beside them, which need not exist.
  std::vector<std::filesystem::path> inputs() const;

  /// Total size of all shards, headers included.
  std::uint64_t size_bytes() const noexcept;

  /// The data of one of tensors(), little endian, at any address.
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

/// Whether a file of this name is looked for in the folder of a model, as its index or as a file with weights. Hidden
/// ones, as file systems without attributes have them (._model.safetensors), are not.
inline bool is_index(std::string_view name) {
  return !name.starts_with('.') && name.ends_with(".safetensors.index.json");
}
inline bool is_shard(std::string_view name) { return !name.starts_with('.') && name.ends_with(".safetensors"); }

/// The path of the index, or of the only file, in `folder`.
result<std::filesystem::path> model_in_folder(const std::filesystem::path& folder);

/// Reads an index: pairs of tensor and file, in the order of the index. Files lie below the index; there are no more
/// than file_limits::shards of them.
result<string_map> read_index(const std::filesystem::path& path);

/// Tensors of three dimensions or more are stacks of matrices, such as experts, if their rows have as many weights.
/// With fewer they are kernels of convolutions.
inline constexpr std::uint64_t least_columns_of_stacks = 256;

/// Whether a tensor is a stack of matrices, the last two extents being those of each.
constexpr bool is_stack(std::span<const std::uint64_t> shape) noexcept {
  return shape.size() >= 3 && shape.back() >= least_columns_of_stacks;
}

/// The tensor as a matrix of elements of `type` (as_weights), of which `bytes` are the tensor's data; precondition: it
/// has as many.
weights_view as_matrix(const tensor_entry& tensor, dtype type, std::span<const std::byte> bytes);

/// Whether elements of `type` in files can be read where they lie.
constexpr bool readable_in_place(dtype type) noexcept {
  return std::endian::native == std::endian::little || size_of(type) == 1;
}

}  // namespace detail

/// The tensor as a matrix: its first axis gives the rows, all others together the columns; a vector has one column. Of
/// a stack of matrices (three dimensions or more, the last of 256 or more), which lie one below the other, the last
/// axis gives the columns: a scale for each of its matrices would be too coarse. `bytes` are the tensor's data. Errors:
/// errc::unsupported if its type is not a weight format (F32, F16, BF16, F8_E4M3, F8_E5M2) or this machine is not
/// little endian, errc::invalid_argument for a scalar.
result<weights_view> as_weights(const tensor_entry& tensor, std::span<const std::byte> bytes);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/checkpoint-inl.hpp"
#endif
