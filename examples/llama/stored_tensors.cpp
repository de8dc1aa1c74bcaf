// Finds the tensors of a model by name, whatever files they lie in.

#include "stored_tensors.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors_dtype.hpp"

namespace llama {

namespace {

std::string text_of(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

std::optional<ecq::dtype> weight_type(std::optional<ecq::dtype> type) noexcept {
  if (type == ecq::dtype::bf16 || type == ecq::dtype::fp16 || type == ecq::dtype::fp32) return type;
  return std::nullopt;
}

stored_tensor of_plain(const ecq::tensor_entry& entry, std::span<const std::byte> bytes,
                       const ecq::container_reader* container) {
  const auto type = weight_type(ecq::dtype_from_safetensors(entry.dtype));
  return {entry.name, entry.shape, type, entry.dtype, bytes, &entry, container};
}

stored_tensor of_coded(const ecq::packed_matrix& matrix, const ecq::container_reader& container, std::size_t block,
                       std::size_t index) {
  stored_tensor tensor{matrix.name, matrix.shape, ecq::dtype::bf16, ecq::to_string(matrix.format)};
  if (matrix.is_bytes()) tensor.type_name = matrix.element_type;
  if (matrix.lossless()) tensor.type = matrix.is_bytes() ? std::nullopt : weight_type(matrix.format);
  tensor.container = &container;
  tensor.block = block;
  tensor.matrix = index;
  return tensor;
}

}  // namespace

stored_tensors::stored_tensors() = default;
stored_tensors::stored_tensors(stored_tensors&&) noexcept = default;
stored_tensors& stored_tensors::operator=(stored_tensors&&) noexcept = default;
stored_tensors::~stored_tensors() = default;

ecq::result<stored_tensors> stored_tensors::open(const std::filesystem::path& path) {
  stored_tensors all;
  ECQ_TRY(packed, ecq::is_container(path));
  if (packed) {
    ECQ_TRY(containers, ecq::open_containers(path));
    all.containers_ = std::move(containers);
    for (const ecq::container_reader& container : all.containers_) ECQ_CHECK(all.add(container));
  } else {
    ECQ_TRY(plain, ecq::checkpoint::open(path));
    all.plain_ = std::make_unique<const ecq::checkpoint>(std::move(plain));
    for (const ecq::tensor_entry& entry : all.plain_->tensors()) {
      ECQ_CHECK(all.add(of_plain(entry, all.plain_->bytes(entry), nullptr)));
    }
  }
  return all;
}

const stored_tensor* stored_tensors::find(std::string_view name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

ecq::result<const stored_tensor*> stored_tensors::expect(std::string_view name,
                                                         std::span<const std::uint64_t> shape) const {
  const stored_tensor* tensor = find(name);
  if (tensor == nullptr) return ecq::error(ecq::errc::not_found, "tensor '", name, "' is missing");
  if (!std::ranges::equal(tensor->shape, shape)) {
    return ecq::error(ecq::errc::corrupt, "tensor '", name, "': its shape is ", text_of(tensor->shape),
                      ", but config.json needs ", text_of(shape));
  }
  if (!tensor->type) {
    return ecq::error(ecq::errc::unsupported, "tensor '", name, "': elements of type ", tensor->type_name,
                      ", not BF16, F16 or F32");
  }
  return tensor;
}

ecq::result<void> stored_tensors::add(const ecq::container_reader& container) {
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

ecq::result<void> stored_tensors::add(const stored_tensor& tensor) {
  if (by_name_.emplace(tensor.name, tensor).second) return {};
  return ecq::error(ecq::errc::corrupt, "tensor '", tensor.name, "' occurs twice");
}

}  // namespace llama
