// Makes plans of the matrices of a layer that are multiplied together.

#include "fused_source.hpp"

#include <cstdint>

#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/matmul/matmul.hpp"
#include "projection.hpp"
#include "stored_tensors.hpp"
#include "thread_pool.hpp"

namespace llama {

namespace {

/// Coded matrices of a block that share an input, one below the other. Products use the exact values of codes and
/// scales. They differ from those of dense_layer by the rounding of weights to BF16 and by the order of sums
/// (ecq::matmul_plan states the bound), and by the rounding of activations if these are quantised.
class coded_layer final : public linear_layer {
 public:
  coded_layer(ecq::matmul_plan plan, ecq::activation_type activations)
      : plan_(std::move(plan)), activations_(activations) {}

  std::size_t rows() const noexcept override { return plan_.rows(); }

  ecq::result<void> multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                             ecq::matrix_view<float> out) const override {
    return ecq::matmul(pool.backend(), plan_, in, out, {.activations = activations_});
  }

  std::optional<coded_product> coded() const noexcept override { return coded_product{&plan_, activations_}; }

 private:
  ecq::matmul_plan plan_;
  ecq::activation_type activations_;
};

/// Whether one plan can hold both tensors.
bool together(const stored_tensor& first, const stored_tensor& second) noexcept {
  return first.coded() && second.coded() && first.container == second.container && first.block == second.block;
}

}  // namespace

ecq::result<void> fused_source::add(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors) {
  std::vector<std::unique_ptr<const linear_layer>> matrices(tensors.size());
  for (std::size_t index = 0, end = 0; index < tensors.size(); index = end) {
    const stored_tensor& tensor = *tensors[index];
    for (end = index + 1; end < tensors.size() && together(tensor, *tensors[end]) && shares_input(end);) ++end;
    if (tensor.coded()) {
      ECQ_TRY(plan, plan_of(backend, tensors.subspan(index, end - index)));
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

ecq::result<layer_matrices> fused_source::layer(std::size_t index) {
  layer_matrices pointers;
  for (const auto& matrix : layers_[index]) pointers.push_back(matrix.get());
  return pointers;
}

ecq::result<ecq::matmul_plan> fused_source::plan_of(const ecq::cpu& backend,
                                                    std::span<const stored_tensor* const> tensors) {
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

}  // namespace llama
