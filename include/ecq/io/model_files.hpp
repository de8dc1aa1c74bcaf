#pragma once
/// \file
/// The files of a model on disk: shards, their index, and everything that lies beside them.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/temporary_file.hpp"

namespace ecq {

/// The files of a model. All names are relative to its folder.
struct model_files {
  std::filesystem::path folder;               ///< empty if `path` names a file of the working directory
  std::filesystem::path index;                ///< empty if the model is one file
  std::vector<std::filesystem::path> shards;  ///< in the order of the index
  /// Names of the tensors that the index lists for each shard, sorted; empty without an index.
  std::vector<std::vector<std::string>> tensors;
  std::vector<std::filesystem::path> others;  ///< sorted; without hidden files and folders

  /// Returns the names of all files.
  std::vector<std::filesystem::path> names() const;

  /// Lists the index and the shards of the model at `path`: a .safetensors file, which is then the only one listed; an
  /// index; or a folder as checkpoint::open takes it. Does not open the shards. Errors: those of finding and reading
  /// the index.
  static result<model_files> of(const std::filesystem::path& path);

  /// The same with all other files, unless `path` is a .safetensors file. Errors: those of of(); io_error for a folder
  /// that cannot be listed.
  static result<model_files> with_others(const std::filesystem::path& path);
};

/// Copies a file piece by piece. The copy is on the disk, but has its name only once it is committed. Errors name the
/// file.
result<output_file> copy_of(const std::filesystem::path& from, const std::filesystem::path& to);

/// Creates the folder `path` and those above it. Errors: io_error.
result<void> create_folder(const std::filesystem::path& path);

/// A folder for output. The destructor removes it if create() made it and it is empty.
class output_folder {
 public:
  /// Creates the folder `path` and those above it, unless it exists. Errors: io_error.
  static result<output_folder> create(const std::filesystem::path& path);

  output_folder(output_folder&& other) noexcept
      : made_(std::exchange(other.made_, {})), slot_(std::exchange(other.slot_, nullptr)) {}
  ~output_folder();

 private:
  output_folder() = default;

  std::filesystem::path made_;               ///< empty if the folder existed before
  detail::unfinished_file* slot_ = nullptr;  ///< for remove_unfinished_files()
};

/// Copies the other files of a model and, last, its index to `folder`, with config.json changed by `change`
/// (copy_of_config). The copies are on the disk, and have their names once they are committed. Errors name the file.
result<std::vector<output_file>> copies_of_others(const model_files& model, const std::filesystem::path& folder,
                                                  result<std::string> (*change)(std::string_view));

/// Fails with errc::invalid_argument if `names`, relative to `folder`, cannot be written there without harm: one of
/// them would replace one of `inputs`, two of them are the same, or the folder holds another index or .safetensors
/// file, which would be taken for a part of the model.
result<void> check_output_folder(const std::filesystem::path& folder, std::span<const std::filesystem::path> names,
                                 std::span<const std::filesystem::path> inputs);

/// Fails with errc::invalid_argument if two folders are the same or one lies in the other: a model is written beside
/// another, never into it. An empty `in` is the working directory. Paths are compared by name, with symbolic links
/// resolved, so neither folder has to exist.
result<void> check_apart(const std::filesystem::path& in, const std::filesystem::path& out);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/model_files-inl.hpp"
#endif
