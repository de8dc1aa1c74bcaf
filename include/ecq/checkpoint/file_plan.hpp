#pragma once
/// \file
/// The files of a compressed model, and which of them holds each tensor.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"

namespace ecq::detail {

class file_plan {
 public:
  struct file {
    std::filesystem::path name;                ///< relative to the folder
    std::vector<const tensor_entry*> tensors;  ///< in the model's order
    std::uint64_t bytes = 0;                   ///< size by which files are dealt to parts
  };

  /// Makes one file for all tensors; it has no name.
  static file_plan one_file(const checkpoint& model);

  /// Makes one file for each file of the model.
  static file_plan as_original(const checkpoint& model, const model_files& files);

  /// Makes files of neighbouring tensors, with an index. `bytes[i]` is the size at which tensor i counts. No file has
  /// more than `most` bytes unless it holds a single tensor.
  static file_plan by_size(const checkpoint& model, const model_files& files, std::span<const std::uint64_t> bytes,
                           std::uint64_t most);

  const std::vector<file>& files() const noexcept { return files_; }
  /// Returns the number of the file that holds tensor `position` of the model.
  std::size_t file_of(std::size_t position) const noexcept { return file_of_[position]; }
  /// Whether each file has the tensors of the model's file of the same number.
  bool is_original() const noexcept { return is_original_; }
  /// Returns the name of the index; empty if there is none.
  const std::filesystem::path& index() const noexcept { return index_; }

  /// Returns the numbers of the files in `part`, in ascending order.
  std::vector<std::size_t> files_of(const folder_part& part) const;

 private:
  explicit file_plan(const checkpoint& model) : file_of_(model.tensors().size()) {}

  void add(const checkpoint& model, std::size_t position);

  std::vector<file> files_;
  std::vector<std::size_t> file_of_;
  std::filesystem::path index_;
  bool is_original_ = false;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/file_plan-inl.hpp"
#endif
