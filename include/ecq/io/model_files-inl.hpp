#pragma once
/// \file
/// Definition of the files of a model.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/model_config.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"

namespace ecq {

ECQ_INLINE result<output_file> copy_of(const std::filesystem::path& from, const std::filesystem::path& to) {
  ECQ_CHECK(refuse_to_overwrite(to, std::span(&from, 1)));
  std::error_code failure;
  const auto original = std::filesystem::status(from, failure);
  ECQ_TRY(copy, output_file::create(to, failure ? std::nullopt : std::optional(original.permissions())));
  if (std::filesystem::is_empty(from, failure) && !failure) return std::move(copy);  // nothing to map
  ECQ_TRY(file, mapped_file::open(from));
  for (auto bytes = file.bytes(); !bytes.empty();) {
    const auto piece = bytes.first((std::min)(bytes.size(), file_limits::piece_bytes));
    ECQ_CHECK(copy.append(piece));
    bytes = bytes.subspan(piece.size());
  }
  ECQ_CHECK(copy.flush());
  return std::move(copy);
}

ECQ_INLINE result<void> create_folder(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (!failure && std::filesystem::is_directory(path, failure)) return {};
  return error(errc::io_error, detail::quoted(path), ": cannot create the folder: ", failure.message());
}

ECQ_INLINE result<output_folder> output_folder::create(const std::filesystem::path& path) {
  std::error_code failure;
  const bool there = std::filesystem::exists(path, failure);
  ECQ_CHECK(create_folder(path));
  output_folder folder;
  if (!there) {
    folder.made_ = path;
    folder.slot_ = detail::list_unfinished(path.string());
  }
  return folder;
}

ECQ_INLINE output_folder::~output_folder() {
  detail::unlist_finished(slot_);
  std::error_code ignored;
  if (!made_.empty()) std::filesystem::remove(made_, ignored);  // which fails if it has files
}

namespace detail {

/// Returns all files in `folder` and below, relative to it, except `known` and hidden ones.
ECQ_INLINE result<std::vector<std::filesystem::path>> other_files(const std::filesystem::path& folder,
                                                                  const std::set<std::filesystem::path>& known) {
  std::vector<std::filesystem::path> found;
  std::error_code failure;
  std::filesystem::path at = folder;
  std::filesystem::recursive_directory_iterator entry(folder, failure);
  for (const std::filesystem::recursive_directory_iterator end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    at = entry->path();
    if (entry->path().filename().string().starts_with('.')) {
      if (entry->is_directory(ignored)) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file(ignored)) continue;
    auto name = entry->path().lexically_relative(folder);
    if (!known.contains(name)) found.push_back(std::move(name));
  }
  if (failure) return error(errc::io_error, quoted(at), ": cannot list: ", failure.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace detail

ECQ_INLINE result<model_files> model_files::of(const std::filesystem::path& path) {
  model_files model;
  std::error_code ignored;
  const bool whole_folder = std::filesystem::is_directory(path, ignored);
  std::filesystem::path file = path;
  if (whole_folder) {
    ECQ_TRY(found, detail::model_in_folder(path));
    file = std::move(found);
  }
  model.folder = file.parent_path();
  if (file.extension() != ".json") {
    model.shards.push_back(file.filename());
    return model;
  }
  model.index = file.filename();
  ECQ_TRY(weight_map, detail::read_index(file));
  std::map<std::string_view, std::size_t> numbers;
  for (const auto& [tensor, shard] : weight_map) {
    const auto [number, added] = numbers.emplace(shard, model.shards.size());
    if (added) {
      model.shards.emplace_back(shard);
      model.tensors.emplace_back();
    }
    model.tensors[number->second].push_back(tensor);
  }
  for (auto& names : model.tensors) std::sort(names.begin(), names.end());
  return model;
}

ECQ_INLINE result<model_files> model_files::with_others(const std::filesystem::path& path) {
  ECQ_TRY(model, of(path));
  std::error_code ignored;
  if (model.index.empty() && !std::filesystem::is_directory(path, ignored)) return std::move(model);
  std::set<std::filesystem::path> known{model.index};
  for (const auto& shard : model.shards) known.insert(shard.lexically_normal());
  ECQ_TRY(others, detail::other_files(model.folder.empty() ? "." : model.folder, known));
  model.others = std::move(others);
  return std::move(model);
}

ECQ_INLINE result<std::vector<output_file>> copies_of_others(const model_files& model,
                                                             const std::filesystem::path& folder,
                                                             result<std::string> (*change)(std::string_view)) {
  std::vector<output_file> copies;
  for (const auto& other : model.others) {
    ECQ_CHECK(create_folder((folder / other).parent_path()));
    ECQ_TRY(copy, other == "config.json" ? copy_of_config(model.folder, folder, change)
                                         : copy_of(model.folder / other, folder / other));
    copies.push_back(std::move(copy));
  }
  if (model.index.empty()) return copies;
  ECQ_TRY(index, copy_of(model.folder / model.index, folder / model.index));
  copies.push_back(std::move(index));
  return copies;
}

ECQ_INLINE std::vector<std::filesystem::path> model_files::names() const {
  std::vector<std::filesystem::path> all = shards;
  all.insert(all.end(), others.begin(), others.end());
  if (!index.empty()) all.push_back(index);
  return all;
}

ECQ_INLINE result<void> check_output_folder(const std::filesystem::path& folder,
                                            std::span<const std::filesystem::path> names,
                                            std::span<const std::filesystem::path> inputs) {
  std::set<std::filesystem::path> written;
  for (const auto& name : names) {
    ECQ_CHECK(refuse_to_overwrite(folder / name, inputs));
    if (!written.insert(name.lexically_normal()).second) {
      return error(errc::invalid_argument, detail::quoted(folder / name),
                   ": a file beside the model has the same name as one to be written; rename or remove it");
    }
  }
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (const std::filesystem::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
    const std::filesystem::path name = entry->path().filename();
    if (written.contains(name) || !(detail::is_index(name.string()) || detail::is_shard(name.string()))) continue;
    return error(errc::invalid_argument, detail::quoted(entry->path()),
                 ": would be taken for part of the model to be written there; remove it or choose another folder");
  }
  return {};
}

ECQ_INLINE result<void> check_apart(const std::filesystem::path& in, const std::filesystem::path& out) {
  if (out.empty()) return error(errc::invalid_argument, detail::quoted(out), ": the name is empty");
  std::error_code failed_in, failed_out;
  const auto canonical = [](const std::filesystem::path& path, std::error_code& failure) {
    const auto whole = std::filesystem::absolute(path.empty() ? "." : path, failure);
    return failure ? whole : std::filesystem::weakly_canonical(whole, failure);
  };
  const auto one = canonical(in, failed_in);
  const auto other = canonical(out, failed_out);
  if (failed_in) return error(errc::io_error, detail::quoted(in), ": ", failed_in.message());
  if (failed_out) return error(errc::io_error, detail::quoted(out), ": ", failed_out.message());
  const auto begins_with = [](const std::filesystem::path& path, const std::filesystem::path& start) {
    return std::mismatch(start.begin(), start.end(), path.begin(), path.end()).first == start.end();
  };
  if (!begins_with(one, other) && !begins_with(other, one)) return {};
  return error(errc::invalid_argument, detail::quoted(out), ": is the folder of the input, or inside or above it");
}

}  // namespace ecq
