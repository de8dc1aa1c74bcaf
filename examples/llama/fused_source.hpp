#pragma once
/// \file
/// Layers that stay coded, and are multiplied as they lie.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "stored_tensors.hpp"

namespace llama {

/// Coded matrices of a block that share an input, one below the other. Products are those of the codes' exact values
/// and scales, so they differ from those of dense_layer by the rounding of weights to BF16 and by the order of sums
/// (ecq::matmul_plan states the bound), and by the rounding of activations if they are quantised.
class coded_layer final : public linear_layer {
 public:
  coded_layer(ecq::matmul_plan plan, ecq::activation_type activations)
      : plan_(std::move(plan)), activations_(activations) {}

  std::size_t rows() const noexcept override { return plan_.rows(); }

  ecq::result<void> multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                             ecq::matrix_view<float> out) const override {
    return ecq::matmul(pool.backend(), plan_, in, out, {.activations = activations_});
  }

 private:
  ecq::matmul_plan plan_;
  ecq::activation_type activations_;
};

/// Mode `fused`: no weight of a coded matrix is ever dense, but for a tile of each thread.
class fused_source final : public layer_source {
 public:
  explicit fused_source(ecq::activation_type activations) : activations_(activations) {}

  /// Adds the next layer. Errors: those of opening blocks and of ecq::matmul_plan::of.
  ecq::result<void> add(const ecq::cpu& backend, const by_projection<const stored_tensor*>& tensors) {
    by_projection<std::unique_ptr<const linear_layer>> matrices;
    for (std::size_t index = 0, end = 0; index < projections; index = end) {
      const stored_tensor& tensor = *tensors[index];
      for (end = index + 1; end < projections && together(tensor, *tensors[end]) && shares_input(end);) ++end;
      if (tensor.coded()) {
        ECQ_TRY(plan, plan_of(backend, std::span(tensors).subspan(index, end - index)));
        matrices[index] = std::make_unique<coded_layer>(std::move(plan), activations_);
        continue;
      }
      ECQ_TRY(loaded, bf16_matrix::load(backend, tensor));
      plain_.push_back(std::make_unique<const bf16_matrix>(std::move(loaded)));
      memory_.dense += plain_.back()->size_bytes();
      matrices[index] = std::make_unique<dense_layer>(plain_.back()->view());
    }
    layers_.push_back(std::move(matrices));
    return {};
  }

  ecq::result<by_projection<const linear_layer*>> layer(std::size_t index) override {
    by_projection<const linear_layer*> pointers{};
    for (std::size_t each = 0; each < projections; ++each) pointers[each] = layers_[index][each].get();
    return pointers;
  }
  memory_use memory() const noexcept override { return memory_; }

 private:
  /// Whether one plan can have both.
  static bool together(const stored_tensor& first, const stored_tensor& second) noexcept {
    return first.coded() && second.coded() && first.container == second.container && first.block == second.block;
  }

  /// The plan of matrices of one block.
  ecq::result<ecq::matmul_plan> plan_of(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors) {
    auto& block = blocks_[{tensors[0]->container, tensors[0]->block}];
    if (block == nullptr) {
      ECQ_TRY(opened, ecq::detail::open_block::open(*tensors[0]->container, tensors[0]->block));
      block = std::move(opened);
      memory_.coded += block->decoder().stream().bytes().size();
    }
    std::vector<ecq::row_selection> rows;
    for (const stored_tensor* tensor : tensors) {
      memory_.coded += block->decoder().matrices()[tensor->matrix].side_bytes();
      rows.push_back({.matrix = tensor->matrix});
    }
    return ecq::matmul_plan::of(backend, {block->decoder().matrices(), block->decoder().stream().bytes()}, rows);
  }

  ecq::activation_type activations_;
  std::map<std::pair<const ecq::container_reader*, std::size_t>, std::shared_ptr<const ecq::detail::open_block>>
      blocks_;
  std::vector<std::unique_ptr<const bf16_matrix>> plain_;
  std::vector<by_projection<std::unique_ptr<const linear_layer>>> layers_;
  memory_use memory_;
};

}  // namespace llama
