#pragma once
/// \file
/// Definition of the writer of safetensors files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/io/safetensors_writer.hpp"

namespace ecq {

ECQ_INLINE result<void> safetensors_writer::write(std::string_view name, std::span<const std::byte> bytes) {
  ECQ_CHECK(begin(name));
  ECQ_CHECK(append(bytes));
  return end();
}

ECQ_INLINE result<void> safetensors_writer::commit() {
  ECQ_CHECK(finish());
  return file_.commit();
}

ECQ_INLINE result<safetensors_writer> safetensors_writer::create(const std::filesystem::path& path,
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
      if (!bytes || declared.shape->size() > file_limits::dimensions) return bad(declared.name, "invalid shape");
      size = *bytes;
    } else if (type->bits % 8 != 0) {
      return bad(declared.name, "elements smaller than a byte need a shape");
    }
    slots.push_back({.declared = std::move(declared), .begin = 0, .end = 0, .size = size, .position = unwritten});
  }
  std::uint64_t text = 0;  // escapes do not make it shorter
  for (const auto& [key, value] : metadata) text += key.size() + value.size();
  if (text > file_limits::header_bytes) {
    return error(errc::limit_exceeded, detail::quoted(path), ": ", text, " bytes of metadata, more than ",
                 file_limits::header_bytes);
  }
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    const bool utf8 = is_utf8(key) && is_utf8(value);
    if (utf8 && keys.insert(key).second) continue;
    return error(errc::invalid_argument, detail::quoted(path), ": metadata '", key,
                 (utf8 ? "' occurs twice" : "' is not UTF-8"));
  }
  ECQ_TRY(file, output_file::create(path));
  safetensors_writer writer(std::move(file));
  writer.slots_ = std::move(slots);
  writer.index_ = std::move(index);
  writer.metadata_ = std::move(metadata);
  ECQ_CHECK(writer.reserve_header());
  return writer;
}

ECQ_INLINE result<safetensors_writer> safetensors_writer::create_as(const std::filesystem::path& path,
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

ECQ_INLINE result<void> safetensors_writer::reserve_header() {
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
    return error(errc::limit_exceeded, detail::quoted(file_.path()), ": header of ", header_size_,
                 " bytes, more than the limit of ", file_limits::header_bytes);
  }
  header_.assign(static_cast<std::size_t>(header_size_), std::byte{' '});
  return file_.append(header_);
}

ECQ_INLINE std::string safetensors_writer::render(std::span<const slot* const> slots, const string_map& metadata) {
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

/// Writes length and text into `header`, which is blank and has at least header_size_of(text) bytes.
ECQ_INLINE void safetensors_writer::fill_header(std::span<std::byte> header, std::string_view text) {
  store_le<std::uint64_t>(header.data(), header.size() - 8);
  std::ranges::copy(std::as_bytes(std::span(text)), header.begin() + 8);
}

ECQ_INLINE std::vector<std::byte> safetensors_writer::header_of(std::span<const tensor_entry* const> tensors,
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

ECQ_INLINE result<void> safetensors_writer::begin(std::string_view name) {
  const auto found = index_.find(name);
  if (found == index_.end()) return misuse("tensor '", name, "' was not declared");
  if (open_ != unwritten) return misuse("tensor '", slots_[open_].declared.name, "' is not complete yet");
  slot& current = slots_[found->second];
  if (sealed_ ? current.position != written_ : current.position != unwritten) {
    return misuse("tensor '", current.declared.name, "' is written twice or out of order");
  }
  current.position = written_;
  current.begin = data_size_;
  open_ = found->second;
  return {};
}

ECQ_INLINE result<void> safetensors_writer::append(std::span<const std::byte> bytes) {
  if (open_ == unwritten) return misuse("data outside a tensor");
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

ECQ_INLINE result<void> safetensors_writer::end() {
  if (open_ == unwritten) return misuse("there is no tensor to end");
  slot& current = slots_[open_];
  const std::uint64_t size = data_size_ - current.begin;
  if (current.declared.shape && size != current.size) {
    return misuse("tensor '", current.declared.name, "' takes ", current.size, " bytes, got ", size);
  }
  current.end = data_size_;
  if (!current.declared.shape) {
    const std::uint64_t element = find_safetensors_dtype(current.declared.dtype)->bits / 8;
    if (size % element != 0) {
      return misuse("tensor '", current.declared.name, "': ", size, " bytes are not a whole number of ",
                    current.declared.dtype, " elements");
    }
    current.declared.shape = std::vector{size / element};
    current.size = size;
  }
  open_ = unwritten;
  ++written_;
  return {};
}

ECQ_INLINE result<std::span<const std::byte>> safetensors_writer::seal(const string_map& metadata) {
  if (open_ != unwritten) return misuse("tensor '", slots_[open_].declared.name, "' is not complete yet");
  if (sealed_) return misuse("the header is already fixed");
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
    return error(errc::limit_exceeded, detail::quoted(file_.path()), ": header of ", text.size(), " bytes for ", end,
                 " bytes of data does not fit the ", header_size_ - 8, " bytes reserved");
  }
  fill_header(header_, text);
  sealed_ = true;
  return std::span<const std::byte>(header_);
}

ECQ_INLINE result<void> safetensors_writer::finish() {
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
