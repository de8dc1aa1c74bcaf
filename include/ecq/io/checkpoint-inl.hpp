#pragma once
/// \file
/// Definition of checkpoint.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/file_kinds.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

ECQ_INLINE const tensor_entry* checkpoint::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

ECQ_INLINE std::filesystem::path checkpoint::folder() const {
  return (index_path_.empty() ? shards_.front().path() : index_path_).parent_path();
}

ECQ_INLINE std::vector<std::filesystem::path> checkpoint::files() const {
  std::vector<std::filesystem::path> paths;
  if (!index_path_.empty()) paths.push_back(index_path_);
  for (const safetensors_file& shard : shards_) paths.push_back(shard.path());
  return paths;
}

ECQ_INLINE std::vector<std::filesystem::path> checkpoint::inputs() const {
  std::vector<std::filesystem::path> paths = files();
  paths.push_back(folder() / "config.json");
  return paths;
}

ECQ_INLINE std::uint64_t checkpoint::size_bytes() const noexcept {
  return std::accumulate(shards_.begin(), shards_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const safetensors_file& shard) { return sum + shard.size_bytes(); });
}

ECQ_INLINE void checkpoint::add_tensor(tensor_entry tensor) {
  index_.emplace(tensor.name, tensors_.size());
  tensors_.push_back(std::move(tensor));
}

namespace detail {

/// Returns the folders in `folder` that hold a file of weights or an index, except hidden ones.
ECQ_INLINE std::vector<std::filesystem::path> models_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    for (std::filesystem::directory_iterator file(entry->path(), ignored); !ignored && file != end;
         file.increment(ignored)) {
      const std::string name = file->path().filename().string();
      if (!is_index(name) && !is_shard(name)) continue;
      found.push_back(entry->path());
      break;
    }
  }
  return found;
}

/// Returns the file names of paths, sorted and in quotes: four at most, and the number of the others.
ECQ_INLINE std::string some_names(std::vector<std::filesystem::path> paths) {
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (std::size_t index = 0; index < paths.size(); ++index) {
    if (index == 4) return text + text_of(" and ", paths.size() - index, " more");
    text += (index == 0 ? "'" : ", '") + paths[index].filename().string() + "'";
  }
  return text;
}

ECQ_INLINE result<std::filesystem::path> model_in_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> indexes, files, others;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (is_index(name)) indexes.push_back(entry->path());
    if (is_shard(name)) files.push_back(entry->path());
    if (has_weights_of_others(name)) others.push_back(entry->path());
  }
  if (failure) return error(errc::io_error, quoted(folder), ": cannot list: ", failure.message());
  if (indexes.size() == 1) return indexes.front();
  if (indexes.empty() && files.size() == 1) return files.front();
  if (indexes.empty() && files.empty()) {
    const auto below = models_below(folder);
    return error(errc::not_found, quoted(folder), ": has no .safetensors file", others.empty() ? "" : ", but ",
                 some_names(others), others.empty() ? "" : conversion_advice,
                 below.empty() ? "" : "; name one of its folders that have one: ", some_names(below));
  }
  files.insert(files.end(), indexes.begin(), indexes.end());
  return error(errc::not_found, quoted(folder), ": holds ", indexes.size(), " indexes and ",
               files.size() - indexes.size(), " .safetensors files; name the one to read: ", some_names(files));
}

/// Whether `path` stays below the folder of the index that names it.
ECQ_INLINE bool stays_below(const std::filesystem::path& path) {
  return !path.empty() && path.has_filename() && !path.has_root_path() &&
         std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) { return part == ".."; });
}

/// Parses the text of an index and returns pairs of tensor and file, in the order of the index.
ECQ_INLINE result<string_map> parse_weight_map(std::string_view text) {
  string_map map;
  bool found = false;
  json_reader json(text);
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key != "weight_map") return json.skip();
    found = true;
    return json.object([&](const std::string& tensor) -> result<void> {
      if (map.size() == file_limits::tensors) {
        return error(errc::limit_exceeded, "more than ", map.size(), " tensors");
      }
      ECQ_TRY(file, json.string());
      // The operating system would end the name of the file there.
      if (file.find('\0') != std::string::npos) {
        return error(errc::corrupt, "tensor '", tensor, "' in file '", file, "': a name contains a NUL character");
      }
      map.emplace_back(tensor, std::move(file));
      return {};
    });
  }));
  ECQ_CHECK(json.finish());
  if (!found) return error(errc::corrupt, "no weight_map");
  return map;
}

ECQ_INLINE result<string_map> read_index(const std::filesystem::path& path) {
  const std::string label = quoted(path);
  ECQ_TRY(file, mapped_file::open(path));
  if (file.bytes().size() > file_limits::header_bytes) {
    return error(errc::limit_exceeded, label, ": ", file.bytes().size(), " bytes, more than the ",
                 file_limits::header_bytes, " of an index");
  }
  auto parsed = parse_weight_map({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!parsed) return std::move(parsed).error().within(label);
  if (parsed->empty()) return error(errc::corrupt, label, ": its weight_map is empty");
  std::set<std::string_view> shards;
  for (const auto& [name, shard] : *parsed) {
    if (!shards.insert(shard).second) continue;
    if (!stays_below(shard)) {
      return error(errc::corrupt, label, ": tensor '", name, "' is listed in '", shard,
                   "', which is not the relative path of a file below the index");
    }
    if (shards.size() > file_limits::shards) {
      return error(errc::limit_exceeded, label, ": more than ", file_limits::shards, " files");
    }
  }
  return parsed;
}

}  // namespace detail

ECQ_INLINE result<checkpoint> checkpoint::open(const std::filesystem::path& path) {
  const auto failed = [&] { return error(errc::out_of_memory, detail::quoted(path), ": no memory for its headers"); };
  return detail::or_out_of_memory(failed, [&]() -> result<checkpoint> {
    std::filesystem::path file = path;
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      ECQ_TRY(found, detail::model_in_folder(path));
      file = std::move(found);
    }
    if (file.extension() == ".json") return open_index(file);
    checkpoint model;
    ECQ_TRY(only, safetensors_file::open(file));
    model.shards_.push_back(std::move(only));
    model.merge_metadata();
    for (const tensor_entry& tensor : model.shards_.front().tensors()) model.add_tensor(tensor);
    return model;
  });
}

ECQ_INLINE void checkpoint::merge_metadata() {
  std::set<std::string_view> keys;
  for (const safetensors_file& shard : shards_) {
    for (const auto& entry : shard.metadata()) {
      if (keys.insert(entry.first).second) metadata_.push_back(entry);
    }
  }
}

ECQ_INLINE result<checkpoint> checkpoint::open_index(const std::filesystem::path& path) {
  const std::string label = detail::quoted(path);
  ECQ_TRY(weight_map, detail::read_index(path));
  checkpoint model;
  model.index_path_ = path;
  std::map<std::string, std::size_t, std::less<>> shard_index;
  for (const auto& [name, shard] : weight_map) {
    const auto [position, added] = shard_index.emplace(shard, model.shards_.size());
    if (added) {
      auto opened = safetensors_file::open(path.parent_path() / shard);
      if (!opened) return std::move(opened).error().within(label);
      model.shards_.push_back(std::move(*opened));
    }
    const tensor_entry* tensor = model.shards_[position->second].find(name);
    if (tensor == nullptr) {
      return error(errc::not_found, label, ": tensor '", name, "' is not in '", shard, "'");
    }
    tensor_entry indexed = *tensor;
    indexed.shard = position->second;
    model.add_tensor(std::move(indexed));
  }
  for (std::size_t shard = 0; shard < model.shards_.size(); ++shard) {
    for (const tensor_entry& tensor : model.shards_[shard].tensors()) {
      const tensor_entry* indexed = model.find(tensor.name);
      if (indexed != nullptr && indexed->shard == shard) continue;
      return error(errc::corrupt, label, ": tensor '", tensor.name, "' of ",
                   detail::quoted(model.shards_[shard].path()),
                   (indexed == nullptr ? " is not in the index" : " is also in another file"));
    }
  }
  model.merge_metadata();
  return model;
}

namespace detail {

ECQ_INLINE weights_view as_matrix(const tensor_entry& tensor, dtype type, std::span<const std::byte> bytes) {
  // The header's check bounds every product of non-empty extents by the size of the mapping.
  const std::size_t row_axes = is_stack(tensor.shape) ? tensor.shape.size() - 1 : 1;
  std::size_t rows = 1, columns = tensor.size_bytes() == 0 ? 0 : 1;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    (axis < row_axes ? rows : columns) *= static_cast<std::size_t>(tensor.shape[axis]);
  }
  return {type, bytes.data(), rows, columns, static_cast<std::ptrdiff_t>(columns)};
}

}  // namespace detail

ECQ_INLINE result<weights_view> as_weights(const tensor_entry& tensor, std::span<const std::byte> bytes) {
  const auto type = dtype_from_safetensors(tensor.dtype);
  if (!type || *type == dtype::int8 || *type == dtype::uint8) {
    return error(errc::unsupported, "tensor '", tensor.name, "': ", tensor.dtype, " is not a weight format");
  }
  if (!detail::readable_in_place(*type)) {
    return error(errc::unsupported, "tensor '", tensor.name,
                 "': weights of more than a byte need a little-endian machine");
  }
  if (tensor.shape.empty()) return error(errc::invalid_argument, "tensor '", tensor.name, "' is a scalar");
  return detail::as_matrix(tensor, *type, bytes);
}

}  // namespace ecq
