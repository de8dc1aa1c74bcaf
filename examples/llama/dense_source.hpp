#pragma once
/// \file
/// Layers that are decoded once.

#include <cstddef>
#include <memory>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "stored_layer.hpp"

namespace llama {

/// Source of mode `dense`: coded matrices are decoded once and stay in memory as BF16.
class dense_source final : public layer_source {
 public:
  /// Adds the next layer, decoded by `backend`. Errors: those of ecq::block_decoder::decode.
  ecq::result<void> add(const ecq::cpu& backend, stored_layer layer);

  ecq::result<layer_matrices> layer(std::size_t index) override;
  memory_use memory() const noexcept override { return memory_; }

 private:
  struct decoded_layer {
    stored_layer stored;
    std::vector<ecq::bf16> decoded;
    std::vector<dense_layer> matrices;
  };

  std::vector<std::unique_ptr<decoded_layer>> layers_;
  memory_use memory_;
};

}  // namespace llama
