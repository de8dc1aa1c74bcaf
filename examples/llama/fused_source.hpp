#pragma once
/// \file
/// Layers that stay coded and are multiplied in coded form.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/base/result.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"

namespace ecq {
enum class activation_type : unsigned char;
class container_reader;
struct cpu;
class matmul_plan;
namespace detail {
class open_block;
}
}  // namespace ecq

namespace llama {

struct stored_tensor;

/// Source of mode `fused`: of a coded matrix, only a tile for each thread is ever dense.
class fused_source final : public layer_source {
 public:
  explicit fused_source(ecq::activation_type activations) : activations_(activations) {}

  /// Adds the next layer. Errors: those of opening blocks and of ecq::matmul_plan::of.
  ecq::result<void> add(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors);

  ecq::result<layer_matrices> layer(std::size_t index) override;
  memory_use memory() const noexcept override { return memory_; }

 private:
  /// Makes the plan of matrices of one block.
  ecq::result<ecq::matmul_plan> plan_of(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors);

  ecq::activation_type activations_;
  std::map<std::pair<const ecq::container_reader*, std::size_t>, std::shared_ptr<const ecq::detail::open_block>>
      blocks_;
  std::vector<std::unique_ptr<const bf16_matrix>> plain_;
  std::vector<std::vector<std::unique_ptr<const linear_layer>>> layers_;
  memory_use memory_;
};

}  // namespace llama
