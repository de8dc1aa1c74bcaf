#pragma once
/// \file
/// Reader of safetensors files, which hold eight bytes of header length (little endian), a JSON header, and the data.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/safetensors_dtype.hpp"

namespace ecq {

/// One tensor of a file: row-major, little endian, in bytes [begin, end) of the data that follow the header.
struct tensor_entry {
  std::string name;
  std::string_view dtype;            ///< one of safetensors_dtypes, as files spell it
  std::vector<std::uint64_t> shape;  ///< empty for a scalar
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t shard = 0;  ///< which file of a sharded checkpoint (io/checkpoint.hpp)

  std::uint64_t size_bytes() const noexcept { return end - begin; }
};

/// The `__metadata__` of a file, in the file's order.
using string_map = std::vector<std::pair<std::string, std::string>>;

/// The value of `key`, or null.
inline const std::string* find_value(const string_map& map, std::string_view key) noexcept {
  const auto found = std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.first == key; });
  return found == map.end() ? nullptr : &found->second;
}

/// Size in bytes of a tensor of this type and shape; nothing if it exceeds 64 bits or is not a whole number of bytes.
constexpr std::optional<std::uint64_t> tensor_bytes(const safetensors_dtype& type,
                                                    std::span<const std::uint64_t> shape) noexcept {
  constexpr std::uint64_t largest = (std::numeric_limits<std::uint64_t>::max)();
  // An extent of zero makes an empty tensor, whatever the product of the others.
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : shape) {
    if (elements > largest / extent) return std::nullopt;
    elements *= extent;
  }
  // Eight elements fill type.bits bytes.
  const std::uint64_t rest_bits = elements % 8 * type.bits;
  if (elements / 8 > (largest - 64) / type.bits || rest_bits % 8 != 0) return std::nullopt;
  return elements / 8 * type.bits + rest_bits / 8;
}

/// The checked content of a header.
struct safetensors_header {
  std::vector<tensor_entry> tensors;  ///< in the order of their data, which they cover without gap or overlap
  string_map metadata;
  std::uint64_t data_begin = 0;  ///< where the data begin in the file: 8 + header length
};

/// Reads the header of a whole file in memory and checks every claim against the file's size. Errors: errc::truncated,
/// errc::corrupt, errc::unsupported (unknown element type) or errc::limit_exceeded (file_limits).
result<safetensors_header> parse_safetensors(std::span<const std::byte> file);

/// Reads the header of a file that is not at hand; `bytes` are the header alone, with its length before it. Errors:
/// those of parse_safetensors; errc::corrupt if there are more bytes.
result<safetensors_header> parse_safetensors_header(std::span<const std::byte> bytes);

/// A safetensors file, mapped.
class safetensors_file {
 public:
  /// Opens the file at `path` and checks its header. Errors are those of mapped_file::open and parse_safetensors, and
  /// name the file.
  static result<safetensors_file> open(const std::filesystem::path& path) {
    try {
      ECQ_TRY(file, mapped_file::open(path));
      auto header = parse_safetensors(file.bytes());
      if (!header) return std::move(header).error().within(detail::quoted(path));
      return safetensors_file(std::move(file), std::move(*header));
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory, detail::quoted(path), ": no memory for its header");
    }
  }

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  std::uint64_t size_bytes() const noexcept { return file_.bytes().size(); }

  /// The tensors, in the order of their data.
  std::span<const tensor_entry> tensors() const noexcept { return header_.tensors; }
  const string_map& metadata() const noexcept { return header_.metadata; }

  /// The tensor called `name`, or null.
  const tensor_entry* find(std::string_view name) const noexcept {
    const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](std::size_t index, auto wanted) {
      return header_.tensors[index].name < wanted;
    });
    return found == by_name_.end() || header_.tensors[*found].name != name ? nullptr : &header_.tensors[*found];
  }

  /// The file's bytes before the data: header length and JSON.
  std::span<const std::byte> header_bytes() const noexcept {
    return file_.bytes().first(static_cast<std::size_t>(header_.data_begin));
  }

  /// The data of a tensor of this file, at any address (not aligned to the tensor's elements).
  std::span<const std::byte> bytes(const tensor_entry& tensor) const noexcept {
    return file_.bytes().subspan(static_cast<std::size_t>(header_.data_begin + tensor.begin),
                                 static_cast<std::size_t>(tensor.size_bytes()));
  }

  /// Gives the memory of a tensor's data, or of `part`, a piece of bytes(tensor), back to the system
  /// (mapped_file::release).
  void release(const tensor_entry& tensor) const noexcept { release(bytes(tensor)); }
  void release(std::span<const std::byte> part) const noexcept {
    if (part.empty()) return;
    file_.release(static_cast<std::size_t>(part.data() - file_.bytes().data()), part.size());
  }

 private:
  safetensors_file(mapped_file file, safetensors_header header)
      : file_(std::move(file)), header_(std::move(header)), by_name_(header_.tensors.size()) {
    std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
    std::sort(by_name_.begin(), by_name_.end(), [&](std::size_t left, std::size_t right) {
      return header_.tensors[left].name < header_.tensors[right].name;
    });
  }

  mapped_file file_;
  safetensors_header header_;
  std::vector<std::size_t> by_name_;
};

namespace detail {

inline result<tensor_entry> parse_tensor_entry(json_reader& json, const std::string& name) {
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
    return error(errc::corrupt, "begins at ", tensor.begin, " and ends at ", tensor.end);
  }
  const auto size = tensor_bytes(*type, tensor.shape);
  if (!size) {
    return error(errc::corrupt, "its shape gives no size: more than 64 bits, or no whole number of bytes");
  }
  if (*size != tensor.size_bytes()) {
    return error(errc::corrupt, "dtype and shape need ", *size, " bytes, its offsets span ", tensor.size_bytes());
  }
  return tensor;
}

inline result<void> parse_metadata(json_reader& json, string_map& out) {
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
inline result<void> check_coverage(std::vector<tensor_entry>& tensors, std::optional<std::uint64_t> size) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const tensor_entry& left, const tensor_entry& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  std::uint64_t covered = 0;
  for (const tensor_entry& tensor : tensors) {
    if (tensor.begin != covered) {
      return error(errc::corrupt, "tensor '", tensor.name, "': begins at ", tensor.begin,
                   " of the data, the one before it ends at ", covered);
    }
    if (size && tensor.end > *size) {
      return error(errc::truncated, "tensor '", tensor.name, "': ends at ", tensor.end, " of the data, the file has ",
                   *size);
    }
    covered = tensor.end;
  }
  if (size && covered != *size) {
    return error(errc::corrupt, "the tensors end at ", covered, " of the data, the file has ", *size);
  }
  return {};
}

/// parse_safetensors of a whole file, or of its header if `header_alone`.
inline result<safetensors_header> parse_safetensors(std::span<const std::byte> file, bool header_alone) {
  constexpr std::size_t prefix = 8;
  if (file.size() < prefix) {
    return error(errc::truncated, "no safetensors file: ", file.size(), " bytes, the header length alone takes 8");
  }
  std::uint64_t length = 0;
  for (std::size_t index = prefix; index-- > 0;) length = (length << 8) | std::to_integer<std::uint64_t>(file[index]);
  // The limit is checked first: in a file of another kind, the "length" is usually a huge number.
  if (length > file_limits::header_bytes) {
    return error(errc::limit_exceeded, "no safetensors file: header of ", length, " bytes announced, at most ",
                 file_limits::header_bytes, " are allowed");
  }
  if (length > file.size() - prefix) {
    return error(errc::truncated, "header of ", length, " bytes announced, the file has ", file.size() - prefix);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, static_cast<std::size_t>(length));
  if (text.empty() || text[0] != '{')
    return error(errc::corrupt, "no safetensors file: the header does not begin with '{'");

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
  if (header_alone && behind != 0) return error(errc::corrupt, behind, " bytes behind the header");
  return header;
}

}  // namespace detail

inline result<safetensors_header> parse_safetensors(std::span<const std::byte> file) {
  return detail::parse_safetensors(file, false);
}

inline result<safetensors_header> parse_safetensors_header(std::span<const std::byte> bytes) {
  return detail::parse_safetensors(bytes, true);
}

}  // namespace ecq
