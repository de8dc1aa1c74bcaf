#pragma once
/// \file
/// Matrices of a layer as files have them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"

namespace llama {

/// Matrices of a layer as they are stored. Plain matrices stay in memory or in their mapped file; coded matrices are
/// decoded to a buffer.
class stored_layer {
 public:
  /// Opens the blocks that hold coded matrices and loads plain ones. Errors: those of tensor_decoder.
  static ecq::result<stored_layer> open(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors);

  /// Number of weights that decode() writes.
  std::size_t buffer_weights() const noexcept { return buffer_weights_; }
  std::uint64_t coded_bytes() const noexcept { return decoder_.coded_bytes(); }
  std::uint64_t plain_bytes() const noexcept { return plain_bytes_; }

  ecq::result<void> decode(const ecq::cpu& backend, ecq::bf16* buffer) const;

  /// Closes the blocks. From then on, decode() decodes nothing.
  void close();

  /// Number of matrices.
  std::size_t size() const noexcept { return matrices_.size(); }

  /// Sets `layers`, size() of them, to the plain matrices and to those that were decoded to `buffer`.
  void set(std::span<dense_layer> layers, const ecq::bf16* buffer) const noexcept;

 private:
  struct matrix {
    extents size;
    bool coded = false;
    std::size_t place = 0;  ///< of a coded matrix, in the buffer
    bf16_matrix plain;
  };

  std::vector<matrix> matrices_;
  tensor_decoder<ecq::bf16> decoder_;
  std::size_t buffer_weights_ = 0;
  std::uint64_t plain_bytes_ = 0;
};

/// Returns pointers to the matrices of a layer.
layer_matrices pointers_to(std::span<const dense_layer> layers);

}  // namespace llama
