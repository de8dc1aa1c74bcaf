#pragma once
/// \file
/// The tensors of a model in files: plain ones, and those that ecq has compressed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors_dtype.hpp"

namespace llama {

/// A tensor in a file, not yet decoded.
struct stored_tensor {
  std::string_view name;
  std::span<const std::uint64_t> shape;
  /// The format of its elements, or nothing for elements that are no weights of this program (integers, packed codes,
  /// FP8 that waits for its scales).
  std::optional<ecq::dtype> type;
  std::string_view type_name;                        ///< of its elements, as files spell it
  std::span<const std::byte> bytes{};                ///< of a plain tensor: its data in the mapped file
  const ecq::tensor_entry* entry = nullptr;          ///< of a plain tensor
  const ecq::container_reader* container = nullptr;  ///< the container that holds it; null in a plain file
  std::size_t block = 0;                             ///< of a coded tensor, as is the next: its place in the container
  std::size_t matrix = 0;

  bool coded() const noexcept { return entry == nullptr; }
};

/// All tensors of a model: of safetensors files, or of containers. They stay in their mapped files.
class stored_tensors {
 public:
  /// Opens a file, an index or a folder. Errors: those of ecq::checkpoint::open and ecq::open_containers, and
  /// ecq::errc::corrupt for a tensor in two containers.
  static ecq::result<stored_tensors> open(const std::filesystem::path& path) {
    stored_tensors all;
    ECQ_TRY(packed, ecq::is_container(path));
    if (packed) {
      ECQ_TRY(containers, ecq::open_containers(path));
      all.containers_ = std::move(containers);
      for (const ecq::container_reader& container : all.containers_) ECQ_CHECK(all.add(container));
    } else {
      ECQ_TRY(plain, ecq::checkpoint::open(path));
      all.plain_.emplace(std::move(plain));
      for (const ecq::tensor_entry& entry : all.plain_->tensors()) {
        ECQ_CHECK(all.add(of_plain(entry, all.plain_->bytes(entry), nullptr)));
      }
    }
    return all;
  }

  /// The tensor called `name`, or null.
  const stored_tensor* find(std::string_view name) const noexcept {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &found->second;
  }

  /// The tensor called `name`, of this shape. Errors name the tensor: ecq::errc::not_found, ecq::errc::corrupt for
  /// another shape, ecq::errc::unsupported for elements that are not BF16, F16 or F32.
  ecq::result<const stored_tensor*> expect(std::string_view name, std::span<const std::uint64_t> shape) const {
    const stored_tensor* tensor = find(name);
    if (tensor == nullptr) return ecq::error(ecq::errc::not_found, "tensor '", name, "' is missing");
    if (!std::ranges::equal(tensor->shape, shape)) {
      return ecq::error(ecq::errc::corrupt, "tensor '", name, "': its shape is ", text_of(tensor->shape),
                        ", config.json needs ", text_of(shape));
    }
    if (!tensor->type) {
      return ecq::error(ecq::errc::unsupported, "tensor '", name, "': elements of type ", tensor->type_name,
                        ", not BF16, F16 or F32");
    }
    return tensor;
  }

  /// Calls `use(tensor)` for all tensors, by name.
  template <class Use>
  void each(const Use& use) const {
    for (const auto& [name, tensor] : by_name_) use(tensor);
  }

 private:
  static std::string text_of(std::span<const std::uint64_t> shape) {
    std::string text = "[";
    for (const std::uint64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
    return text + "]";
  }

  static std::optional<ecq::dtype> weight_type(std::optional<ecq::dtype> type) noexcept {
    if (type == ecq::dtype::bf16 || type == ecq::dtype::fp16 || type == ecq::dtype::fp32) return type;
    return std::nullopt;
  }

  static stored_tensor of_plain(const ecq::tensor_entry& entry, std::span<const std::byte> bytes,
                                const ecq::container_reader* container) {
    const auto type = weight_type(ecq::dtype_from_safetensors(entry.dtype));
    return {entry.name, entry.shape, type, entry.dtype, bytes, &entry, container};
  }

  static stored_tensor of_coded(const ecq::packed_matrix& matrix, const ecq::container_reader& container,
                                std::size_t block, std::size_t index) {
    stored_tensor tensor{matrix.name, matrix.shape, ecq::dtype::bf16, ecq::to_string(matrix.format)};
    if (matrix.is_bytes()) tensor.type_name = matrix.element_type;
    if (matrix.lossless()) tensor.type = matrix.is_bytes() ? std::nullopt : weight_type(matrix.format);
    tensor.container = &container;
    tensor.block = block;
    tensor.matrix = index;
    return tensor;
  }

  ecq::result<void> add(const ecq::container_reader& container) {
    for (const ecq::tensor_entry& entry : container.passed_through()) {
      ECQ_CHECK(add(of_plain(entry, container.file().bytes(entry), &container)));
    }
    const auto blocks = container.blocks();
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      for (std::size_t index = 0; index < blocks[block].matrices.size(); ++index) {
        ECQ_CHECK(add(of_coded(blocks[block].matrices[index], container, block, index)));
      }
    }
    return {};
  }

  ecq::result<void> add(const stored_tensor& tensor) {
    if (by_name_.emplace(tensor.name, tensor).second) return {};
    return ecq::error(ecq::errc::corrupt, "tensor '", tensor.name, "' is there twice");
  }

  std::optional<ecq::checkpoint> plain_;
  std::vector<ecq::container_reader> containers_;
  std::map<std::string_view, stored_tensor, std::less<>> by_name_;
};

}  // namespace llama
