#pragma once
/// \file
/// The files of a compressed model, and which of them holds each tensor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"

namespace ecq::detail {

/// The name of file `number` of `count`, counted from 0, as hubs of models call them.
inline std::string name_of_file(std::string_view stem, std::size_t number, std::size_t count) {
  const auto digits = [](std::size_t value) {
    std::string text = std::to_string(value);
    return text.size() < 5 ? std::string(5 - text.size(), '0') + text : text;
  };
  return std::string(stem) + "-" + digits(number + 1) + "-of-" + digits(count) + ".safetensors";
}

class file_plan {
 public:
  struct file {
    std::filesystem::path name;                ///< relative to the folder
    std::vector<const tensor_entry*> tensors;  ///< in the model's order
    std::uint64_t bytes = 0;                   ///< by which files are dealt out
  };

  /// One file for all tensors; it has no name.
  static file_plan one_file(const checkpoint& model) {
    file_plan made(model);
    made.files_.resize(1);
    made.is_original_ = model.shards().size() == 1;
    for (std::size_t position = 0; position < model.tensors().size(); ++position) made.add(model, position);
    return made;
  }

  /// A file for each of the model's.
  static file_plan as_original(const checkpoint& model, const model_files& files) {
    file_plan made(model);
    made.is_original_ = true;
    made.index_ = files.index;
    for (std::size_t shard = 0; shard < files.shards.size(); ++shard) {
      made.files_.push_back({.name = files.shards[shard], .tensors = {}, .bytes = model.shards()[shard].size_bytes()});
    }
    for (std::size_t position = 0; position < model.tensors().size(); ++position) {
      made.file_of_[position] = model.tensors()[position].shard;
      made.add(model, position);
    }
    return made;
  }

  /// Files of neighbours, with an index. `bytes` says what each tensor counts. No file has more than `most` of them
  /// unless it is one tensor.
  static file_plan by_size(const checkpoint& model, const model_files& files, std::span<const std::uint64_t> bytes,
                           std::uint64_t most) {
    file_plan made(model);
    made.files_.resize(1);
    for (std::size_t position = 0; position < model.tensors().size(); ++position) {
      const std::uint64_t so_far = made.files_.back().bytes;
      if (so_far != 0 && bytes[position] > most - (std::min)(most, so_far)) made.files_.emplace_back();
      made.files_.back().bytes += bytes[position];
      made.file_of_[position] = made.files_.size() - 1;
      made.add(model, position);
    }
    constexpr std::string_view index_ending = ".safetensors.index.json";
    std::string stem = files.index.empty() ? files.shards.front().stem().string() : files.index.string();
    if (!files.index.empty()) stem.resize(stem.ends_with(index_ending) ? stem.size() - index_ending.size() : 0);
    if (stem.empty()) stem = "model";
    for (std::size_t number = 0; number < made.files_.size(); ++number) {
      made.files_[number].name = name_of_file(stem, number, made.files_.size());
    }
    made.index_ = stem + std::string(index_ending);
    return made;
  }

  const std::vector<file>& files() const noexcept { return files_; }
  /// The number of the file that holds tensor `position` of the model.
  std::size_t file_of(std::size_t position) const noexcept { return file_of_[position]; }
  /// Whether each file has the tensors of one file of the model, by the same number.
  bool is_original() const noexcept { return is_original_; }
  /// The name of the index; empty if there is none.
  const std::filesystem::path& index() const noexcept { return index_; }

  /// The numbers of the files in `part`, ascending.
  std::vector<std::size_t> files_of(const folder_part& part) const {
    std::vector<std::uint64_t> bytes;
    for (const file& each : files_) bytes.push_back(each.bytes);
    const auto parts = deal_files(bytes, part.count);
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < parts.size(); ++number) {
      if (parts[number] == part.index) numbers.push_back(number);
    }
    return numbers;
  }

 private:
  explicit file_plan(const checkpoint& model) : file_of_(model.tensors().size()) {}

  void add(const checkpoint& model, std::size_t position) {
    files_[file_of_[position]].tensors.push_back(&model.tensors()[position]);
  }

  std::vector<file> files_;
  std::vector<std::size_t> file_of_;
  std::filesystem::path index_;
  bool is_original_ = false;
};

}  // namespace ecq::detail
