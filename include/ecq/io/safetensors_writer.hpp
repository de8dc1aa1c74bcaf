#pragma once
/// \file
/// Writer of safetensors files that holds only a header and the piece it is given.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// A tensor that will be written. Without a shape, it has one dimension, whose extent follows from the data written.
struct tensor_declaration {
  std::string name;
  std::string_view dtype = "U8";
  std::optional<std::vector<std::uint64_t>> shape = std::nullopt;
};

/// Writes one safetensors file. Tensors may be written in any order; their data lie in that order. Readers that require
/// aligned elements (PyTorch) need tensors in descending order of element size. The length of the header must be known
/// before the data, so it gets room for the longest header that the declarations allow; white space fills the rest.
class safetensors_writer {
 public:
  /// Opens a temporary file beside `path` (output_file). Errors: errc::invalid_argument names a declaration that cannot
  /// be written: unknown dtype, a shape without a size, a name that is duplicate or not UTF-8.
  static result<safetensors_writer> create(const std::filesystem::path& path,
                                           std::vector<tensor_declaration> declarations, string_map metadata = {});

  /// The same for a file that begins with `header`, as it was in another file: length, JSON, and all white space.
  /// Tensors must be written in the order of their data. Errors: those of parse_safetensors_header.
  static result<safetensors_writer> create_as(const std::filesystem::path& path, std::span<const std::byte> header);

  /// The header of a file of these tensors, whose data follow one another in this order: length, JSON, and white space
  /// up to a multiple of 64 bytes. Looks at names, types, shapes and sizes alone.
  static std::vector<std::byte> header_of(std::span<const tensor_entry* const> tensors, const string_map& metadata);

  /// Begins the data of a declared tensor. Write each tensor once, one after another: begin, append..., end.
  result<void> begin(std::string_view name);
  result<void> append(std::span<const std::byte> bytes);
  /// Ends the data of a tensor. Errors: errc::invalid_argument if a tensor of declared shape got more or fewer bytes
  /// than it needs.
  result<void> end();

  /// Writes a whole tensor: begin, append, end.
  result<void> write(std::string_view name, std::span<const std::byte> bytes) {
    ECQ_CHECK(begin(name));
    ECQ_CHECK(append(bytes));
    return end();
  }

  /// Bytes of data written so far: where the next tensor begins.
  std::uint64_t data_size() const noexcept { return data_size_; }
  /// Where the data begin in the file: a multiple of 64.
  std::uint64_t data_begin() const noexcept { return header_size_; }

  /// Fixes the header with this metadata, which must not be longer than that given to create(), and returns the
  /// header's bytes (length and JSON). Tensors not yet written must have a declared shape and follow in declared order.
  result<std::span<const std::byte>> seal(const string_map& metadata);

  /// Seals the header with the metadata given to create(), unless it is sealed already, and writes everything to the
  /// disk. Errors: errc::invalid_argument names a tensor that was not written.
  result<void> finish();

  /// Finishes the file, unless that is done, and puts it under its name.
  result<void> commit() {
    ECQ_CHECK(finish());
    return file_.commit();
  }

 private:
  struct slot {
    tensor_declaration declared;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size = 0;  ///< bytes, if the shape is declared
    std::size_t position = unwritten;
  };
  static constexpr std::size_t unwritten = static_cast<std::size_t>(-1);
  /// The largest offset in bytes, 10^16 - 1: the header has room for its digits in every offset.
  static constexpr std::uint64_t largest_offset = 9'999'999'999'999'999;
  /// Header and length are a multiple of 64 bytes.
  static constexpr std::size_t header_size_of(std::string_view text) { return (text.size() + 8 + 63) / 64 * 64; }

  explicit safetensors_writer(output_file file) : file_(std::move(file)) {}

  template <class... Parts>
  error misuse(const Parts&... parts) const {
    return error(errc::invalid_argument, detail::quoted(file_.path()), ": ", parts...);
  }

  static std::string render(std::span<const slot* const> slots, const string_map& metadata);
  static void fill_header(std::span<std::byte> header, std::string_view text);
  result<void> reserve_header();

  output_file file_;
  std::vector<slot> slots_;
  std::map<std::string, std::size_t, std::less<>> index_;
  string_map metadata_;
  std::vector<std::byte> header_;
  std::uint64_t header_size_ = 0;
  std::uint64_t data_size_ = 0;
  std::size_t written_ = 0;
  std::size_t open_ = unwritten;
  bool sealed_ = false;
  bool finished_ = false;
};

inline result<safetensors_writer> safetensors_writer::create(const std::filesystem::path& path,
                                                             std::vector<tensor_declaration> declarations,
                                                             string_map metadata) {
  const auto bad = [&](const std::string& name, const auto&... parts) {
    return error(errc::invalid_argument, detail::quoted(path), ": tensor '", name, "': ", parts...);
  };
  if (declarations.size() > file_limits::tensors || metadata.size() > file_limits::metadata_entries) {
    return error(errc::limit_exceeded, detail::quoted(path), ": ", declarations.size(), " tensors and ",
                 metadata.size(), " metadata entries are more than a file may have");
  }
  std::map<std::string, std::size_t, std::less<>> index;
  std::vector<slot> slots;
  slots.reserve(declarations.size());
  for (tensor_declaration& declared : declarations) {
    if (!is_utf8(declared.name)) return bad(declared.name, "its name is not UTF-8");
    if (declared.name == "__metadata__") return bad(declared.name, "the name is reserved");
    if (!index.emplace(declared.name, slots.size()).second) return bad(declared.name, "declared twice");
    const safetensors_dtype* type = find_safetensors_dtype(declared.dtype);
    if (type == nullptr) return bad(declared.name, "unknown dtype '", declared.dtype, "'");
    declared.dtype = type->name;
    std::uint64_t size = 0;
    if (declared.shape) {
      const auto bytes = tensor_bytes(*type, *declared.shape);
      if (!bytes || declared.shape->size() > file_limits::dimensions) return bad(declared.name, "no valid shape");
      size = *bytes;
    } else if (type->bits % 8 != 0) {
      return bad(declared.name, "elements below a byte need a shape");
    }
    slots.push_back({.declared = std::move(declared), .begin = 0, .end = 0, .size = size, .position = unwritten});
  }
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    const bool utf8 = is_utf8(key) && is_utf8(value);
    if (utf8 && keys.insert(key).second) continue;
    return error(errc::invalid_argument, detail::quoted(path), ": metadata '", key,
                 (utf8 ? "' is there twice" : "' is not UTF-8"));
  }
  ECQ_TRY(file, output_file::create(path));
  safetensors_writer writer(std::move(file));
  writer.slots_ = std::move(slots);
  writer.index_ = std::move(index);
  writer.metadata_ = std::move(metadata);
  ECQ_CHECK(writer.reserve_header());
  return writer;
}

inline result<safetensors_writer> safetensors_writer::create_as(const std::filesystem::path& path,
                                                                std::span<const std::byte> header) {
  auto parsed = parse_safetensors_header(header);
  if (!parsed) return std::move(parsed).error().within(detail::quoted(path));
  ECQ_TRY(file, output_file::create(path));
  safetensors_writer writer(std::move(file));
  for (tensor_entry& tensor : parsed->tensors) {
    const std::size_t position = writer.slots_.size();
    const std::uint64_t size = tensor.size_bytes();
    writer.index_.emplace(tensor.name, position);
    writer.slots_.push_back({.declared = {std::move(tensor.name), tensor.dtype, std::move(tensor.shape)},
                             .begin = tensor.begin,
                             .end = tensor.end,
                             .size = size,
                             .position = position});
  }
  writer.header_.assign(header.begin(), header.end());
  writer.header_size_ = header.size();
  writer.sealed_ = true;
  ECQ_CHECK(writer.file_.append(header));
  return writer;
}

inline result<void> safetensors_writer::reserve_header() {
  std::vector<slot> widest = slots_;
  std::vector<const slot*> order;
  for (slot& each : widest) {
    each.begin = largest_offset;
    each.end = largest_offset;
    if (!each.declared.shape) each.declared.shape = std::vector{largest_offset};
    order.push_back(&each);
  }
  header_size_ = header_size_of(render(order, metadata_));
  if (header_size_ - 8 > file_limits::header_bytes) {
    return error(errc::limit_exceeded, detail::quoted(file_.path()), ": a header of ", header_size_, " bytes, at most ",
                 file_limits::header_bytes, " are allowed");
  }
  header_.assign(static_cast<std::size_t>(header_size_), std::byte{' '});
  return file_.append(header_);
}

inline std::string safetensors_writer::render(std::span<const slot* const> slots, const string_map& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (std::size_t at = 0; at < metadata.size(); ++at) {
      if (at != 0) text += ',';
      append_json_string(text, metadata[at].first);
      text += ':';
      append_json_string(text, metadata[at].second);
    }
    text += '}';
  }
  for (const slot* each : slots) {
    if (text.size() > 1) text += ',';
    append_json_string(text, each->declared.name);
    text += ":{\"dtype\":\"";
    text += each->declared.dtype;
    text += "\",\"shape\":[";
    std::string_view separator;
    for (const std::uint64_t extent : *each->declared.shape) {
      text += separator;
      text += std::to_string(extent);
      separator = ",";
    }
    text += "],\"data_offsets\":[" + std::to_string(each->begin) + ',' + std::to_string(each->end) + "]}";
  }
  text += '}';
  return text;
}

/// Writes length and text; `header` is as long as header_size_of(text) says, or longer, and blank.
inline void safetensors_writer::fill_header(std::span<std::byte> header, std::string_view text) {
  store_le<std::uint64_t>(header.data(), header.size() - 8);
  std::ranges::copy(std::as_bytes(std::span(text)), header.begin() + 8);
}

inline std::vector<std::byte> safetensors_writer::header_of(std::span<const tensor_entry* const> tensors,
                                                            const string_map& metadata) {
  std::vector<slot> slots;
  std::uint64_t end = 0;
  for (const tensor_entry* tensor : tensors) {
    const std::uint64_t begin = std::exchange(end, end + tensor->size_bytes());
    slots.push_back({.declared = {tensor->name, tensor->dtype, tensor->shape}, .begin = begin, .end = end});
  }
  std::vector<const slot*> order;
  for (const slot& each : slots) order.push_back(&each);
  const std::string text = render(order, metadata);
  std::vector<std::byte> header(header_size_of(text), std::byte{' '});
  fill_header(header, text);
  return header;
}

inline result<void> safetensors_writer::begin(std::string_view name) {
  const auto found = index_.find(name);
  if (found == index_.end()) return misuse("tensor '", name, "' was not declared");
  if (open_ != unwritten) return misuse("tensor '", slots_[open_].declared.name, "' has no end yet");
  slot& current = slots_[found->second];
  if (sealed_ ? current.position != written_ : current.position != unwritten) {
    return misuse("tensor '", current.declared.name, "' is written twice or out of order");
  }
  current.position = written_;
  current.begin = data_size_;
  open_ = found->second;
  return {};
}

inline result<void> safetensors_writer::append(std::span<const std::byte> bytes) {
  if (open_ == unwritten) return misuse("data outside of a tensor");
  const slot& current = slots_[open_];
  const std::uint64_t so_far = data_size_ - current.begin;
  if (current.declared.shape && bytes.size() > current.size - so_far) {
    return misuse("tensor '", current.declared.name, "' takes ", current.size, " bytes, got ", bytes.size(), " after ",
                  so_far);
  }
  ECQ_CHECK(file_.append(bytes));
  data_size_ += bytes.size();
  return {};
}

inline result<void> safetensors_writer::end() {
  if (open_ == unwritten) return misuse("the end of no tensor");
  slot& current = slots_[open_];
  const std::uint64_t size = data_size_ - current.begin;
  if (current.declared.shape && size != current.size) {
    return misuse("tensor '", current.declared.name, "' takes ", current.size, " bytes, got ", size);
  }
  current.end = data_size_;
  if (!current.declared.shape) {
    const std::uint64_t element = find_safetensors_dtype(current.declared.dtype)->bits / 8;
    if (size % element != 0) {
      return misuse("tensor '", current.declared.name, "': ", size, " bytes are no whole number of ",
                    current.declared.dtype);
    }
    current.declared.shape = std::vector{size / element};
    current.size = size;
  }
  open_ = unwritten;
  ++written_;
  return {};
}

inline result<std::span<const std::byte>> safetensors_writer::seal(const string_map& metadata) {
  if (open_ != unwritten) return misuse("tensor '", slots_[open_].declared.name, "' has no end yet");
  if (sealed_) return misuse("the header is fixed already");
  std::vector<const slot*> order(slots_.size());
  std::size_t position = written_;
  std::uint64_t end = data_size_;
  for (slot& each : slots_) {
    if (each.position == unwritten) {
      if (!each.declared.shape) return misuse("tensor '", each.declared.name, "' was not written");
      each.position = position++;
      each.begin = end;
      each.end = end += each.size;
    }
    order[each.position] = &each;
  }
  const std::string text = render(order, metadata);
  if (end > largest_offset || text.size() > header_size_ - 8) {
    return error(errc::limit_exceeded, detail::quoted(file_.path()), ": a header of ", text.size(), " bytes for ", end,
                 " bytes of data does not fit the ", header_size_ - 8, " bytes reserved");
  }
  fill_header(header_, text);
  sealed_ = true;
  return std::span<const std::byte>(header_);
}

inline result<void> safetensors_writer::finish() {
  if (finished_) return {};
  if (!sealed_) ECQ_CHECK(seal(metadata_));
  if (written_ != slots_.size()) {
    const auto missing =
        std::find_if(slots_.begin(), slots_.end(), [&](const slot& each) { return each.position >= written_; });
    return misuse("tensor '", missing->declared.name, "' was not written");
  }
  ECQ_CHECK(file_.rewrite(0, header_));
  ECQ_CHECK(file_.flush());
  finished_ = true;
  return {};
}

}  // namespace ecq
