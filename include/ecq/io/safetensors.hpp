#pragma once
/// \file
/// Reader of safetensors files, which hold eight bytes of header length (little endian), a JSON header, and the data.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
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

/// Returns the value of `key`, or null.
const std::string* find_value(const string_map& map, std::string_view key) noexcept;

/// Returns the size in bytes of a tensor of this type and shape, or nothing if it exceeds 64 bits or is not a whole
/// number of bytes.
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
/// errc::corrupt, errc::unsupported (unknown element type, or a file of another known kind) or errc::limit_exceeded
/// (file_limits).
result<safetensors_header> parse_safetensors(std::span<const std::byte> file);

/// Reads a header without the rest of its file; `bytes` are the length and the header. Errors: those of
/// parse_safetensors; errc::corrupt if there are more bytes.
result<safetensors_header> parse_safetensors_header(std::span<const std::byte> bytes);

/// A memory-mapped safetensors file.
class safetensors_file {
 public:
  /// Opens the file at `path` and checks its header. Errors are those of mapped_file::open and parse_safetensors, and
  /// name the file.
  static result<safetensors_file> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  std::uint64_t size_bytes() const noexcept { return file_.bytes().size(); }

  /// Returns the tensors, in the order of their data.
  std::span<const tensor_entry> tensors() const noexcept { return header_.tensors; }
  const string_map& metadata() const noexcept { return header_.metadata; }

  /// Returns the tensor called `name`, or null.
  const tensor_entry* find(std::string_view name) const noexcept;

  /// Returns the file's bytes before the data: header length and JSON.
  std::span<const std::byte> header_bytes() const noexcept {
    return file_.bytes().first(static_cast<std::size_t>(header_.data_begin));
  }

  /// Returns the data of a tensor of this file, which may not be aligned to the tensor's elements.
  std::span<const std::byte> bytes(const tensor_entry& tensor) const noexcept {
    return file_.bytes().subspan(static_cast<std::size_t>(header_.data_begin + tensor.begin),
                                 static_cast<std::size_t>(tensor.size_bytes()));
  }

  /// Gives the memory of a tensor's data, or of `part`, a piece of bytes(tensor), back to the system
  /// (mapped_file::release).
  void release(const tensor_entry& tensor) const noexcept { release(bytes(tensor)); }
  void release(std::span<const std::byte> part) const noexcept;

 private:
  safetensors_file(mapped_file file, safetensors_header header);

  mapped_file file_;
  safetensors_header header_;
  std::vector<std::size_t> by_name_;
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/safetensors-inl.hpp"
#endif
