#pragma once
/// \file
/// Definition of the files of a compressed model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/checkpoint/file_plan.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"

namespace ecq::detail {

/// Returns the name of file `number` of `count`, counted from 0, in the style of model hubs.
ECQ_INLINE std::string name_of_file(std::string_view stem, std::size_t number, std::size_t count) {
  const auto digits = [](std::size_t value) {
    std::string text = std::to_string(value);
    return text.size() < 5 ? std::string(5 - text.size(), '0') + text : text;
  };
  return std::string(stem) + "-" + digits(number + 1) + "-of-" + digits(count) + ".safetensors";
}

ECQ_INLINE file_plan file_plan::one_file(const checkpoint& model) {
  file_plan made(model);
  made.files_.resize(1);
  made.is_original_ = model.shards().size() == 1;
  for (std::size_t position = 0; position < model.tensors().size(); ++position) made.add(model, position);
  return made;
}

ECQ_INLINE file_plan file_plan::as_original(const checkpoint& model, const model_files& files) {
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

ECQ_INLINE file_plan file_plan::by_size(const checkpoint& model, const model_files& files,
                                        std::span<const std::uint64_t> bytes, std::uint64_t most) {
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
  if (stem.empty() || !is_utf8(stem)) stem = "model";  // an index is JSON
  for (std::size_t number = 0; number < made.files_.size(); ++number) {
    made.files_[number].name = name_of_file(stem, number, made.files_.size());
  }
  made.index_ = stem + std::string(index_ending);
  return made;
}

ECQ_INLINE std::vector<std::size_t> file_plan::files_of(const folder_part& part) const {
  std::vector<std::uint64_t> bytes;
  for (const file& each : files_) bytes.push_back(each.bytes);
  const auto parts = deal_files(bytes, part.count);
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number < parts.size(); ++number) {
    if (parts[number] == part.index) numbers.push_back(number);
  }
  return numbers;
}

ECQ_INLINE void file_plan::add(const checkpoint& model, std::size_t position) {
  files_[file_of_[position]].tensors.push_back(&model.tensors()[position]);
}

}  // namespace ecq::detail
