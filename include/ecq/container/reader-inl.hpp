#pragma once
/// \file
/// Definition of the reader of containers.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/description.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/packed_scales.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/packed.hpp"

namespace ecq {

ECQ_INLINE bool is_container(const safetensors_file& file) noexcept {
  return find_value(file.metadata(), container_metadata_key) != nullptr || file.find(header_checksum_name) != nullptr;
}

ECQ_INLINE result<bool> is_container(const std::filesystem::path& path) {
  ECQ_TRY(files, model_files::of(path));
  ECQ_TRY(file, safetensors_file::open(files.folder / files.shards.front()));
  return is_container(file);
}

ECQ_INLINE result<void> container_reader::verify() const {
  return verify([](std::string_view, std::uint64_t, std::uint64_t) { return true; });
}

ECQ_INLINE error container_reader::changed(std::string_view what) const {
  return error(errc::checksum_mismatch, detail::quoted(path()), ": ", what);
}

ECQ_INLINE result<std::vector<container_reader>> open_containers(const std::filesystem::path& path) {
  ECQ_TRY(files, model_files::of(path));
  std::vector<container_reader> containers;
  for (std::size_t index = 0; index < files.shards.size(); ++index) {
    ECQ_TRY(opened, container_reader::open(files.folder / files.shards[index]));
    ECQ_CHECK(detail::check_index(files, index, opened));
    containers.push_back(std::move(opened));
  }
  return containers;
}

ECQ_INLINE result<void> detail::check_index(const model_files& files, std::size_t shard,
                                            const container_reader& container) {
  if (files.index.empty()) return {};
  std::vector<std::string_view> there;
  for (const block_description& block : container.blocks()) {
    for (const packed_matrix& matrix : block.matrices) there.push_back(matrix.name);
  }
  for (const tensor_entry& tensor : container.passed_through()) there.push_back(tensor.name);
  std::sort(there.begin(), there.end());
  const std::vector<std::string>& listed = files.tensors[shard];
  const auto [missing, extra] = std::mismatch(listed.begin(), listed.end(), there.begin(), there.end());
  const std::string label = quoted(files.folder / files.index);
  if (missing != listed.end() && (extra == there.end() || *missing < *extra)) {
    return error(errc::corrupt, label, ": tensor '", *missing, "' is not in ", quoted(container.path()));
  }
  if (extra == there.end()) return {};
  return error(errc::corrupt, quoted(container.path()), ": tensor '", *extra, "' is not listed for this file in ",
               label);
}

ECQ_INLINE result<checkpoint> open_plain(const std::filesystem::path& path) {
  const auto refused = [&] { return error(errc::invalid_argument, detail::quoted(path), " is already compressed"); };
  // Checked before opening, which would fail: the index names tensors that compression has renamed.
  if (const auto compressed = is_container(path); compressed && *compressed) return refused();
  ECQ_TRY(model, checkpoint::open(path));
  for (const safetensors_file& shard : model.shards()) {
    if (is_container(shard)) return refused();
  }
  return std::move(model);
}

ECQ_INLINE result<container_reader> container_reader::open(const std::filesystem::path& path) {
  const auto failed = [&] {
    return error(errc::out_of_memory, detail::quoted(path), ": no memory for its description");
  };
  return detail::or_out_of_memory(failed, [&]() -> result<container_reader> {
    ECQ_TRY(file, safetensors_file::open(path));
    const std::string* text = find_value(file.metadata(), container_metadata_key);
    if (text == nullptr) {
      return error(is_container(file) ? errc::corrupt : errc::not_found,
                   detail::quoted(path) + ": not a container: its metadata has no key '" +
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
  });
}

ECQ_INLINE result<void> container_reader::check_header_checksum() const {
  const tensor_entry* tensor = file_.find(header_checksum_name);
  if (tensor == nullptr || tensor->dtype != "U8" || tensor->size_bytes() != 8) {
    return error(errc::corrupt, detail::quoted(path()), ": no tensor '", header_checksum_name, "' of 8 bytes (U8)");
  }
  if (load_le<std::uint64_t>(file_.bytes(*tensor).data()) != xxh64(file_.header_bytes())) {
    return changed("the header does not match its checksum");
  }
  return {};
}

ECQ_INLINE result<const tensor_entry*> container_reader::expect_tensor(const std::string& name,
                                                                       std::string_view type) const {
  const tensor_entry* tensor = file_.find(name);
  if (tensor == nullptr) return error(errc::corrupt, "tensor '", name, "' is missing");
  if (tensor->dtype != type || tensor->shape.size() != 1) {
    return error(errc::corrupt, "tensor '", name, "': expected ", type, " of one dimension");
  }
  return tensor;
}

/// Assigns every tensor to a block, a matrix, the container itself or the tensors passed through. Checks that the
/// tensors fit the description, and that all but the header checksum have a checksum.
ECQ_INLINE result<void> container_reader::match_tensors() {
  std::set<std::string, std::less<>> own{std::string(header_checksum_name)};
  if (file_.find(original_header_name) != nullptr) {
    ECQ_CHECK(expect_tensor(std::string(original_header_name), "U8"));
    own.emplace(original_header_name);
  }
  const auto claim = [&](std::string&& tensor) -> result<void> {
    const auto [name, added] = own.insert(std::move(tensor));
    return added ? result<void>() : error(errc::corrupt, "tensor '", *name, "' is used twice");
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
      const tensor_entry* found = file_.find(scale);
      const bool plain = found != nullptr && found->dtype == "BF16";
      ECQ_TRY(tensor, expect_tensor(scale, plain ? "BF16" : "U8"));
      const std::uint64_t extent = tensor->shape[0], groups = matrix.layout.count();
      const scale_packing widest{.bits = scale_packing::most_bits};
      if (plain ? extent != groups
                : extent < scale_packing{}.size_bytes(groups) || extent > widest.size_bytes(groups)) {
        return error(errc::corrupt, "tensor '", scale, "': ", extent, plain ? " scales for " : " bytes of scales for ",
                     groups, " groups");
      }
      ECQ_CHECK(claim(std::move(scale)));
    }
  }
  auto& checksums = description_.checksums;
  std::sort(checksums.begin(), checksums.end(),
            [](const tensor_checksum& left, const tensor_checksum& right) { return left.tensor < right.tensor; });
  for (const tensor_entry& tensor : file_.tensors()) {
    if (matrices.contains(tensor.name)) {
      return error(errc::corrupt, "tensor '", tensor.name, "' occurs both plain and compressed");
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

ECQ_INLINE const tensor_checksum* container_reader::find_checksum(std::string_view tensor) const noexcept {
  const auto& checksums = description_.checksums;
  const auto found = std::lower_bound(
      checksums.begin(), checksums.end(), tensor,
      [](const tensor_checksum& checksum, std::string_view wanted) { return checksum.tensor < wanted; });
  return found == checksums.end() || found->tensor != tensor ? nullptr : &*found;
}

ECQ_INLINE result<std::vector<std::byte>> container_reader::original_header() const {
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

ECQ_INLINE result<mapped_block> container_reader::load(std::size_t index) const {
  const block_description& block = description_.blocks[index];
  mapped_block loaded{block.matrices, file_.bytes(*file_.find(stream_tensor_name(block.name)))};
  for (std::size_t number = 0; number < loaded.matrices.size(); ++number) {
    packed_matrix& matrix = loaded.matrices[number];
    if (block.exact_of(number) != 0) {
      std::vector<std::byte> bytes;  // a record may continue in the next piece
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
    const tensor_entry& stored = *file_.find(scale_tensor_name(matrix.name));
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<std::size_t>(stored.size_bytes()));
    ECQ_CHECK(read(stored, [&](std::span<const std::byte> piece) -> result<void> {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return {};
    }));
    if (stored.dtype == "BF16") {
      for (std::size_t at = 0; at < bytes.size(); at += 2) {
        matrix.scales.push_back(bf16::from_bits(load_le<std::uint16_t>(bytes.data() + at)));
      }
    } else {
      auto unpacked = unpack_scales(bytes, matrix.layout.count());
      if (!unpacked) return std::move(unpacked).error().within("tensor '", stored.name, "'");
      matrix.scales = std::move(*unpacked);
    }
  }
  return loaded;
}

}  // namespace ecq
