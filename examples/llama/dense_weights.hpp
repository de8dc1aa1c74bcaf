#pragma once
/// \file
/// Stored tensors as BF16 or FP32 in memory.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"

namespace ecq {
class block_decoder;
class container_reader;
struct cpu;
namespace detail {
class open_block;
}
}  // namespace ecq

namespace llama {

struct stored_tensor;

/// Rows and columns of a tensor. A vector has one column, as in containers.
struct extents {
  std::size_t rows = 0;
  std::size_t columns = 1;

  std::size_t size() const noexcept { return rows * columns; }
};

/// Returns the extents of a tensor of one or two dimensions.
extents extents_of(const stored_tensor& tensor) noexcept;

/// Decodes tensors to `Element` (ecq::bf16 or float), each to memory of its own, and those of one block side by side.
/// Weights of other types are rounded to the nearest `Element`, as ecq::block_decoder::decode does.
template <class Element>
class tensor_decoder {
 public:
  /// Adds a tensor, whose first weight is written to element `place` of the output. Errors: those of opening its block,
  /// and of a plain tensor's checksum.
  ecq::result<void> add(const stored_tensor& tensor, std::size_t place);

  /// Returns the bytes of the streams and scales of the open blocks.
  std::uint64_t coded_bytes() const noexcept { return coded_bytes_; }

  /// Decodes all added tensors by `backend`, to the output that begins at `out`. Errors: those of
  /// ecq::block_decoder::decode.
  ecq::result<void> decode(const ecq::cpu& backend, Element* out) const;

 private:
  struct plain_tensor {
    const stored_tensor* tensor;
    std::size_t place;
  };
  struct coded_tensor {
    const ecq::block_decoder* decoder;
    std::size_t matrix;
    std::size_t place;
  };

  std::map<std::pair<const ecq::container_reader*, std::size_t>, std::shared_ptr<const ecq::detail::open_block>>
      blocks_;
  std::vector<plain_tensor> plain_;
  std::vector<coded_tensor> coded_;
  std::uint64_t coded_bytes_ = 0;
};

/// Matrix of BF16 weights: in a mapped file, or in memory of its own.
class bf16_matrix {
 public:
  bf16_matrix() = default;
  bf16_matrix(bf16_matrix&&) noexcept = default;  // not copied: the view may point into own_
  bf16_matrix& operator=(bf16_matrix&&) noexcept = default;

  /// Loads a tensor. Errors: those of tensor_decoder.
  static ecq::result<bf16_matrix> load(const ecq::cpu& backend, const stored_tensor& tensor);

  ecq::matrix_view<const ecq::bf16> view() const noexcept { return view_; }
  std::uint64_t size_bytes() const noexcept { return std::uint64_t{view_.size()} * sizeof(ecq::bf16); }

 private:
  std::vector<ecq::bf16> own_;
  ecq::matrix_view<const ecq::bf16> view_;
};

/// Loads a vector as FP32; the values are exact if it is lossless. Errors: those of tensor_decoder.
ecq::result<std::vector<float>> load_floats(const ecq::cpu& backend, const stored_tensor& tensor);

}  // namespace llama
