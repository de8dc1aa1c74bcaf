#pragma once
/// \file
/// Source of the matrices of a layer for the forward pass.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/result.hpp"

namespace llama {

class linear_layer;

/// The matrices of a layer, in the order of expert_mixture::matrices.
using layer_matrices = std::vector<const linear_layer*>;

/// Bytes that weights take in memory, mapped files included.
struct memory_use {
  std::uint64_t dense = 0;    ///< BF16 matrices and FP32 vectors
  std::uint64_t coded = 0;    ///< streams and scales
  std::uint64_t buffers = 0;  ///< to which coded weights are decoded again and again

  std::uint64_t total() const noexcept { return dense + coded + buffers; }
};

/// Provides the matrices of one layer after another. Each mode is a source; the forward pass does not know which.
class layer_source {
 public:
  layer_source() = default;
  layer_source(const layer_source&) = delete;
  layer_source& operator=(const layer_source&) = delete;
  virtual ~layer_source() = default;

  /// Returns the matrices of layer `index`, valid until the next call. If matrices that share an input are multiplied
  /// together, the first has the rows of all, one below the other, and the places of the others are null. Calls come in
  /// the order of the layers, and begin again at 0 after the last. Errors are those of decoding.
  virtual ecq::result<layer_matrices> layer(std::size_t index) = 0;

  virtual memory_use memory() const noexcept = 0;
};

}  // namespace llama
