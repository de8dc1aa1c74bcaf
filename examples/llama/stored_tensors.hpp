#pragma once
/// \file
/// Tensors of a model in files, plain or compressed by ecq.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {
class checkpoint;
class container_reader;
struct tensor_entry;
}  // namespace ecq

namespace llama {

/// A tensor in a file, not yet decoded.
struct stored_tensor {
  std::string_view name;
  std::span<const std::uint64_t> shape;
  /// Format of its elements; nothing for elements that this program cannot use as weights (integers, packed codes, FP8
  /// that is still to be multiplied by its scales).
  std::optional<ecq::dtype> type;
  std::string_view type_name;                        ///< of its elements, as files spell it
  std::span<const std::byte> bytes{};                ///< of a plain tensor: its data in the mapped file
  const ecq::tensor_entry* entry = nullptr;          ///< of a plain tensor
  const ecq::container_reader* container = nullptr;  ///< the container that holds it; null in a plain file
  std::size_t block = 0;                             ///< of a coded tensor, like `matrix`: its place in the container
  std::size_t matrix = 0;

  bool coded() const noexcept { return entry == nullptr; }
};

/// All tensors of a model, in safetensors files or in containers. They stay in their mapped files.
class stored_tensors {
 public:
  stored_tensors(stored_tensors&&) noexcept;
  stored_tensors& operator=(stored_tensors&&) noexcept;
  ~stored_tensors();

  /// Opens a file, an index or a folder. Errors: those of ecq::checkpoint::open and ecq::open_containers, and
  /// ecq::errc::corrupt for a tensor in two containers.
  static ecq::result<stored_tensors> open(const std::filesystem::path& path);

  /// Returns the tensor called `name`, or null.
  const stored_tensor* find(std::string_view name) const noexcept;

  /// Returns the tensor called `name`, which must have this shape. Errors name the tensor: ecq::errc::not_found,
  /// ecq::errc::corrupt for another shape, ecq::errc::unsupported for elements that are not BF16, F16 or F32.
  ecq::result<const stored_tensor*> expect(std::string_view name, std::span<const std::uint64_t> shape) const;

  /// Calls `use(tensor)` for all tensors, in the order of their names.
  template <class Use>
  void each(const Use& use) const {
    for (const auto& [name, tensor] : by_name_) use(tensor);
  }

 private:
  stored_tensors();

  ecq::result<void> add(const ecq::container_reader& container);
  ecq::result<void> add(const stored_tensor& tensor);

  std::unique_ptr<const ecq::checkpoint> plain_;
  std::vector<ecq::container_reader> containers_;
  std::map<std::string_view, stored_tensor, std::less<>> by_name_;
};

}  // namespace llama
