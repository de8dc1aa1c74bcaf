#pragma once
/// \file
/// Definition of the reader of safetensors files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/file_kinds.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/io/safetensors_dtype.hpp"

namespace ecq {

ECQ_INLINE const std::string* find_value(const string_map& map, std::string_view key) noexcept {
  const auto found = std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.first == key; });
  return found == map.end() ? nullptr : &found->second;
}

ECQ_INLINE result<safetensors_file> safetensors_file::open(const std::filesystem::path& path) {
  const auto failed = [&] { return error(errc::out_of_memory, detail::quoted(path), ": no memory for its header"); };
  return detail::or_out_of_memory(failed, [&]() -> result<safetensors_file> {
    ECQ_TRY(file, mapped_file::open(path));
    auto header = parse_safetensors(file.bytes());
    if (!header) return std::move(header).error().within(detail::quoted(path));
    return safetensors_file(std::move(file), std::move(*header));
  });
}

ECQ_INLINE const tensor_entry* safetensors_file::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](std::size_t index, auto wanted) {
    return header_.tensors[index].name < wanted;
  });
  return found == by_name_.end() || header_.tensors[*found].name != name ? nullptr : &header_.tensors[*found];
}

ECQ_INLINE void safetensors_file::release(std::span<const std::byte> part) const noexcept {
  if (part.empty()) return;
  file_.release(static_cast<std::size_t>(part.data() - file_.bytes().data()), part.size());
}

ECQ_INLINE safetensors_file::safetensors_file(mapped_file file, safetensors_header header)
    : file_(std::move(file)), header_(std::move(header)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(), [&](std::size_t left, std::size_t right) {
    return header_.tensors[left].name < header_.tensors[right].name;
  });
}

namespace detail {

ECQ_INLINE result<tensor_entry> parse_tensor_entry(json_reader& json, const std::string& name) {
  tensor_entry tensor;
  tensor.name = name;
  const safetensors_dtype* type = nullptr;
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
  const auto integers = [&](std::vector<std::uint64_t>& out, std::size_t most) {
    return json.array([&]() -> result<void> {
      if (out.size() == most) return error(errc::limit_exceeded, "more than ", most, " numbers");
      ECQ_TRY(value, json.integer());
      out.push_back(value);
      return {};
    });
  };
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key == "dtype") {
      ECQ_TRY(text, json.string());
      type = find_safetensors_dtype(text);
      if (type == nullptr) return error(errc::unsupported, "unknown dtype '", text, "'");
      return {};
    }
    if (key == "shape") {
      has_shape = true;
      return integers(tensor.shape, file_limits::dimensions);
    }
    if (key == "data_offsets") return integers(offsets, 2);
    return json.fail("unknown key '", key, "'");
  }));
  if (type == nullptr || !has_shape || offsets.size() != 2) {
    return error(errc::corrupt, "dtype, shape and two data_offsets are needed");
  }
  tensor.dtype = type->name;
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) {
    return error(errc::corrupt, "begins at ", tensor.begin, " but ends at ", tensor.end);
  }
  const auto size = tensor_bytes(*type, tensor.shape);
  if (!size) {
    return error(errc::corrupt, "the size of its shape exceeds 64 bits or is not a whole number of bytes");
  }
  if (*size != tensor.size_bytes()) {
    return error(errc::corrupt, "dtype and shape need ", *size, " bytes, but its offsets span ", tensor.size_bytes());
  }
  return tensor;
}

ECQ_INLINE result<void> parse_metadata(json_reader& json, string_map& out) {
  return json.object([&](const std::string& key) -> result<void> {
    if (out.size() == file_limits::metadata_entries) {
      return error(errc::limit_exceeded, "more than ", out.size(), " entries");
    }
    ECQ_TRY(value, json.string());
    out.emplace_back(key, std::move(value));
    return {};
  });
}

/// Sorts the tensors by position and checks that they cover `size` bytes exactly once, or any number of bytes if there
/// is no size.
ECQ_INLINE result<void> check_coverage(std::vector<tensor_entry>& tensors, std::optional<std::uint64_t> size) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const tensor_entry& left, const tensor_entry& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  std::uint64_t covered = 0;
  for (const tensor_entry& tensor : tensors) {
    if (tensor.begin != covered) {
      return error(errc::corrupt, "tensor '", tensor.name, "': begins at byte ", tensor.begin,
                   " of the data, but the previous one ends at ", covered);
    }
    if (size && tensor.end > *size) {
      return error(errc::truncated, "tensor '", tensor.name, "': ends at byte ", tensor.end,
                   " of the data, but the file has ", *size);
    }
    covered = tensor.end;
  }
  if (size && covered != *size) {
    return error(errc::corrupt, "the tensors end at byte ", covered, " of the data, but the file has ", *size);
  }
  return {};
}

/// Parses a whole file, or a header without its data if `header_alone`.
ECQ_INLINE result<safetensors_header> parse_safetensors(std::span<const std::byte> file, bool header_alone) {
  constexpr std::size_t prefix = 8;
  if (file.size() < prefix) {
    return error(errc::truncated, "not a safetensors file: ", file.size(),
                 " bytes, but the header length alone takes 8");
  }
  std::uint64_t length = 0;
  for (std::size_t index = prefix; index-- > 0;) length = (length << 8) | std::to_integer<std::uint64_t>(file[index]);
  // The limit is checked first: in a file of another kind, the "length" is usually a huge number.
  if (length > file_limits::header_bytes) {
    if (const file_kind* kind = other_kind(file)) {
      return error(errc::unsupported, "not a safetensors file but ", kind->name, kind->advice);
    }
    return error(errc::limit_exceeded, "not a safetensors file: header of ", length, " bytes, more than the limit of ",
                 file_limits::header_bytes);
  }
  if (length > file.size() - prefix) {
    return error(errc::truncated, "header of ", length, " bytes, but the file has only ", file.size() - prefix,
                 " more");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, static_cast<std::size_t>(length));
  if (text.empty() || text[0] != '{') {
    return error(errc::corrupt, "not a safetensors file: the header does not begin with '{'");
  }

  safetensors_header header;
  header.data_begin = prefix + length;
  json_reader json(text);
  auto parsed = json.object([&](const std::string& name) -> result<void> {
    if (name == "__metadata__") {
      auto metadata = parse_metadata(json, header.metadata);
      if (!metadata) return std::move(metadata).error().within("__metadata__");
      return {};
    }
    if (header.tensors.size() == file_limits::tensors) {
      return error(errc::limit_exceeded, "more than ", file_limits::tensors, " tensors");
    }
    auto tensor = parse_tensor_entry(json, name);
    if (!tensor) return std::move(tensor).error().within("tensor '", name, "'");
    header.tensors.push_back(std::move(*tensor));
    return {};
  });
  if (parsed) parsed = json.finish();
  const std::uint64_t behind = file.size() - header.data_begin;
  if (parsed) parsed = check_coverage(header.tensors, header_alone ? std::nullopt : std::optional(behind));
  if (!parsed) return std::move(parsed).error().within("header");
  if (header_alone && behind != 0) return error(errc::corrupt, behind, " bytes after the header");
  return header;
}

}  // namespace detail

ECQ_INLINE result<safetensors_header> parse_safetensors(std::span<const std::byte> file) {
  return detail::parse_safetensors(file, false);
}

ECQ_INLINE result<safetensors_header> parse_safetensors_header(std::span<const std::byte> bytes) {
  return detail::parse_safetensors(bytes, true);
}

}  // namespace ecq
