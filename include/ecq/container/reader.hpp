#pragma once
/// \file
/// A reader that opens a container and hands out its blocks and tensors one at a time.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/description.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/packed.hpp"

namespace ecq {

/// Whether the file claims to be a container, whole or damaged.
inline bool is_container(const safetensors_file& file) noexcept {
  return find_value(file.metadata(), container_metadata_key) != nullptr || file.find(header_checksum_name) != nullptr;
}

/// Whether the file at `path` claims to be a container, whole or damaged; of a folder or an index, whether the first
/// file of the model does.
inline result<bool> is_container(const std::filesystem::path& path) {
  ECQ_TRY(files, model_files::of(path));
  ECQ_TRY(file, safetensors_file::open(files.folder / files.shards.front()));
  return is_container(file);
}

/// A block of an open container, with its scales, values and exact weights in memory and its stream in the mapped file.
struct mapped_block {
  std::vector<packed_matrix> matrices;
  std::span<const std::byte> stream;

  operator packed_block_view() const noexcept { return {matrices, stream}; }
};

/// A container whose header and description have been checked. Data are checked when they are read: the reader checks
/// scales and passed-through tensors, decoders check the chunks of streams, and verify() checks everything at once.
class container_reader {
 public:
  /// Opens the container at `path`. Errors name the file: those of safetensors_file::open and parse_description,
  /// errc::not_found for a safetensors file that is not a container, errc::checksum_mismatch for a header that was
  /// changed, errc::corrupt if description and tensors disagree.
  static result<container_reader> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  std::uint64_t size_bytes() const noexcept { return file_.size_bytes(); }
  const std::string& tool() const noexcept { return description_.tool; }
  const std::string& settings() const noexcept { return description_.settings; }

  /// The metadata of the original.
  const string_map& metadata() const noexcept { return metadata_; }

  /// The blocks with names, shapes and formats of their matrices; load() adds the scales.
  std::span<const block_description> blocks() const noexcept { return description_.blocks; }

  /// The header of the file that was compressed, with its length before it; empty if the container does not have it.
  /// Errors: errc::checksum_mismatch.
  result<std::vector<std::byte>> original_header() const;

  /// The tensors kept unchanged, in the order of their data.
  std::span<const tensor_entry> passed_through() const noexcept { return passed_through_; }

  /// Block `index`, which must be below blocks().size(). Errors: errc::checksum_mismatch names a tensor, such as
  /// scales, that was changed. The stream is not read yet.
  result<mapped_block> load(std::size_t index) const;

  /// Gives the memory of a block's stream back.
  void release(const mapped_block& block) const noexcept { file_.release(block.stream); }

  /// Reads one of passed_through(): calls `use(piece)`, which returns result<void>, for each piece of its data in turn,
  /// and then checks the tensor's checksum. Do not trust the pieces before read() has returned. It gives memory back on
  /// the way.
  template <class Use>
  result<void> read(const tensor_entry& tensor, Use&& use) const;

  /// Reads everything and checks every checksum. Calls `progress(name, done, total)`, with counts in bytes of data,
  /// before each piece; if it returns false, verify ends with errc::invalid_argument ("interrupted").
  template <class Progress>
  result<void> verify(Progress&& progress) const;
  result<void> verify() const {
    return verify([](std::string_view, std::uint64_t, std::uint64_t) { return true; });
  }

  const safetensors_file& file() const noexcept { return file_; }

 private:
  container_reader(safetensors_file file, container_description description)
      : file_(std::move(file)), description_(std::move(description)) {}

  result<void> check_header_checksum() const;
  result<void> match_tensors();
  const tensor_checksum* find_checksum(std::string_view tensor) const noexcept;
  result<const tensor_entry*> expect_tensor(const std::string& name, std::string_view type) const;
  error changed(std::string_view what) const {
    return error(errc::checksum_mismatch, detail::quoted(path()), ": ", what);
  }

  safetensors_file file_;
  container_description description_;  ///< checksums sorted by tensor
  string_map metadata_;
  std::vector<tensor_entry> passed_through_;
};

/// Opens the container at `path`, or all containers of the model if that is a folder or an index. Errors: those of
/// container_reader::open and model_files::of.
inline result<std::vector<container_reader>> open_containers(const std::filesystem::path& path) {
  ECQ_TRY(files, model_files::of(path));
  std::vector<container_reader> containers;
  for (const auto& shard : files.shards) {
    ECQ_TRY(opened, container_reader::open(files.folder / shard));
    containers.push_back(std::move(opened));
  }
  return containers;
}

inline result<container_reader> container_reader::open(const std::filesystem::path& path) {
  try {
    ECQ_TRY(file, safetensors_file::open(path));
    const std::string* text = find_value(file.metadata(), container_metadata_key);
    if (text == nullptr) {
      return error(is_container(file) ? errc::corrupt : errc::not_found,
                   detail::quoted(path) + ": no container: its metadata have no key '" +
                       std::string(container_metadata_key) + "'");
    }
    container_reader reader(std::move(file), {});
    ECQ_CHECK(reader.check_header_checksum());
    text = find_value(reader.file_.metadata(), container_metadata_key);
    auto description = parse_description(*text);
    if (!description) {
      return std::move(description).error().within(detail::quoted(path), ": metadata '", container_metadata_key, "'");
    }
    reader.description_ = std::move(*description);
    for (const auto& entry : reader.file_.metadata()) {
      if (entry.first != container_metadata_key) reader.metadata_.push_back(entry);
    }
    if (auto matched = reader.match_tensors(); !matched) {
      return std::move(matched).error().within(detail::quoted(path));
    }
    return reader;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, detail::quoted(path), ": no memory for its description");
  }
}

inline result<void> container_reader::check_header_checksum() const {
  const tensor_entry* tensor = file_.find(header_checksum_name);
  if (tensor == nullptr || tensor->dtype != "U8" || tensor->size_bytes() != 8) {
    return error(errc::corrupt, detail::quoted(path()), ": no tensor '", header_checksum_name, "' of 8 bytes (U8)");
  }
  if (load_le<std::uint64_t>(file_.bytes(*tensor).data()) != xxh64(file_.header_bytes())) {
    return changed("the header is not the one that was written");
  }
  return {};
}

inline result<const tensor_entry*> container_reader::expect_tensor(const std::string& name,
                                                                   std::string_view type) const {
  const tensor_entry* tensor = file_.find(name);
  if (tensor == nullptr) return error(errc::corrupt, "tensor '", name, "' is missing");
  if (tensor->dtype != type || tensor->shape.size() != 1) {
    return error(errc::corrupt, "tensor '", name, "': expected ", type, " of one dimension");
  }
  return tensor;
}

/// Checks that every tensor belongs to a block or a matrix, is the header checksum or passed through, and that all but
/// the header checksum have a checksum.
inline result<void> container_reader::match_tensors() {
  std::set<std::string, std::less<>> own{std::string(header_checksum_name)};
  if (file_.find(original_header_name) != nullptr) {
    ECQ_CHECK(expect_tensor(std::string(original_header_name), "U8"));
    own.emplace(original_header_name);
  }
  const auto claim = [&](std::string&& tensor) -> result<void> {
    const auto [name, added] = own.insert(std::move(tensor));
    return added ? result<void>() : error(errc::corrupt, "tensor '", *name, "' has two uses");
  };
  std::set<std::string_view> matrices;
  for (const block_description& block : description_.blocks) {
    std::string stream = stream_tensor_name(block.name);
    ECQ_CHECK(expect_tensor(stream, "U8"));
    ECQ_CHECK(claim(std::move(stream)));
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      const packed_matrix& matrix = block.matrices[index];
      matrices.insert(matrix.name);
      if (block.exact_of(index) != 0) {
        std::string exact = exact_tensor_name(matrix.name);
        ECQ_TRY(tensor, expect_tensor(exact, "U8"));
        if (tensor->shape[0] % exact_weight_bytes != 0 ||
            tensor->shape[0] / exact_weight_bytes != block.exact_of(index)) {
          return error(errc::corrupt, "tensor '", exact, "': ", tensor->shape[0], " bytes for ", block.exact_of(index),
                       " exact weights");
        }
        ECQ_CHECK(claim(std::move(exact)));
      }
      if (matrix.format == dtype::table) {
        std::string values = value_tensor_name(matrix.name);
        ECQ_TRY(tensor, expect_tensor(values, "F32"));
        if (tensor->shape[0] != 256) {
          return error(errc::corrupt, "tensor '", values, "': ", tensor->shape[0], " values for 256 codes");
        }
        ECQ_CHECK(claim(std::move(values)));
      }
      if (matrix.lossless()) continue;
      std::string scale = scale_tensor_name(matrix.name);
      ECQ_TRY(tensor, expect_tensor(scale, "BF16"));
      if (tensor->shape[0] != matrix.layout.count()) {
        return error(errc::corrupt, "tensor '", scale, "': ", tensor->shape[0], " scales for ", matrix.layout.count(),
                     " groups");
      }
      ECQ_CHECK(claim(std::move(scale)));
    }
  }
  auto& checksums = description_.checksums;
  std::sort(checksums.begin(), checksums.end(),
            [](const tensor_checksum& left, const tensor_checksum& right) { return left.tensor < right.tensor; });
  for (const tensor_entry& tensor : file_.tensors()) {
    if (matrices.contains(tensor.name)) {
      return error(errc::corrupt, "tensor '", tensor.name, "' is there plain and compressed");
    }
    if (!own.contains(tensor.name)) passed_through_.push_back(tensor);
    if (tensor.name == header_checksum_name) continue;
    const auto found = find_checksum(tensor.name);
    if (found == nullptr) return error(errc::corrupt, "tensor '", tensor.name, "' has no checksum");
  }
  if (checksums.size() != file_.tensors().size() - 1) {
    return error(errc::corrupt, checksums.size(), " checksums for ", file_.tensors().size() - 1, " tensors");
  }
  return {};
}

inline const tensor_checksum* container_reader::find_checksum(std::string_view tensor) const noexcept {
  const auto& checksums = description_.checksums;
  const auto found = std::lower_bound(
      checksums.begin(), checksums.end(), tensor,
      [](const tensor_checksum& checksum, std::string_view wanted) { return checksum.tensor < wanted; });
  return found == checksums.end() || found->tensor != tensor ? nullptr : &*found;
}

template <class Use>
result<void> container_reader::read(const tensor_entry& tensor, Use&& use) const {
  xxh64_hasher hasher;
  for (auto bytes = file_.bytes(tensor); !bytes.empty();) {
    const auto piece = bytes.first((std::min)(bytes.size(), file_limits::piece_bytes));
    hasher.update(piece);
    ECQ_CHECK(use(piece));
    file_.release(piece);
    bytes = bytes.subspan(piece.size());
  }
  const tensor_checksum* expected = find_checksum(tensor.name);
  if (expected != nullptr && expected->value == hasher.digest()) return {};
  return changed("tensor '" + tensor.name + "': its data are not those that were written");
}

inline result<std::vector<std::byte>> container_reader::original_header() const {
  std::vector<std::byte> header;
  if (const tensor_entry* tensor = file_.find(original_header_name)) {
    header.reserve(static_cast<std::size_t>(tensor->size_bytes()));
    ECQ_CHECK(read(*tensor, [&](std::span<const std::byte> piece) -> result<void> {
      header.insert(header.end(), piece.begin(), piece.end());
      return {};
    }));
  }
  return header;
}

inline result<mapped_block> container_reader::load(std::size_t index) const {
  const block_description& block = description_.blocks[index];
  mapped_block loaded{block.matrices, file_.bytes(*file_.find(stream_tensor_name(block.name)))};
  for (std::size_t number = 0; number < loaded.matrices.size(); ++number) {
    packed_matrix& matrix = loaded.matrices[number];
    if (block.exact_of(number) != 0) {
      std::vector<std::byte> bytes;  // records continue from one piece to the next
      ECQ_CHECK(
          read(*file_.find(exact_tensor_name(matrix.name)), [&](std::span<const std::byte> piece) -> result<void> {
            bytes.insert(bytes.end(), piece.begin(), piece.end());
            return {};
          }));
      for (std::size_t at = 0; at < bytes.size(); at += exact_weight_bytes) {
        matrix.exact.push_back({load_le<std::uint64_t>(bytes.data() + at),
                                std::bit_cast<float>(load_le<std::uint32_t>(bytes.data() + at + 8))});
      }
    }
    if (matrix.format == dtype::table) {
      const auto take = [&](std::span<const std::byte> piece) -> result<void> {
        for (std::size_t at = 0; at < piece.size(); at += 4) {
          matrix.values.push_back(std::bit_cast<float>(load_le<std::uint32_t>(piece.data() + at)));
        }
        return {};
      };
      ECQ_CHECK(read(*file_.find(value_tensor_name(matrix.name)), take));
    }
    if (matrix.lossless()) continue;
    matrix.scales.reserve(matrix.layout.count());  // as many as the file holds
    ECQ_CHECK(read(*file_.find(scale_tensor_name(matrix.name)), [&](std::span<const std::byte> piece) -> result<void> {
      for (std::size_t at = 0; at < piece.size(); at += 2) {
        matrix.scales.push_back(bf16::from_bits(load_le<std::uint16_t>(piece.data() + at)));
      }
      return {};
    }));
  }
  return loaded;
}

template <class Progress>
result<void> container_reader::verify(Progress&& progress) const {
  ECQ_CHECK(check_header_checksum());
  const std::uint64_t total = file_.size_bytes() - file_.header_bytes().size();
  for (const tensor_entry& tensor : file_.tensors()) {
    if (tensor.name == header_checksum_name) continue;
    std::uint64_t done = tensor.begin;
    ECQ_CHECK(read(tensor, [&](std::span<const std::byte> piece) -> result<void> {
      if (!progress(std::string_view(tensor.name), done, total)) return error(errc::invalid_argument, "interrupted");
      done += piece.size();
      return {};
    }));
  }
  return {};
}

}  // namespace ecq
