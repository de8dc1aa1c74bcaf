// Matrices of a layer: plain ones are loaded, coded ones are decoded side by side into a buffer.

#include "stored_layer.hpp"

#include <utility>

#include "stored_tensors.hpp"

namespace llama {

ecq::result<stored_layer> stored_layer::open(const ecq::cpu& backend, std::span<const stored_tensor* const> tensors) {
  stored_layer layer;
  for (const stored_tensor* each : tensors) {
    const stored_tensor& tensor = *each;
    matrix& one = layer.matrices_.emplace_back();
    one.size = extents_of(tensor);
    one.coded = tensor.coded();
    if (one.coded) {
      one.place = layer.buffer_weights_;
      ECQ_CHECK(layer.decoder_.add(tensor, one.place));
      layer.buffer_weights_ += one.size.size();
    } else {
      ECQ_TRY(loaded, bf16_matrix::load(backend, tensor));
      one.plain = std::move(loaded);
      layer.plain_bytes_ += one.plain.size_bytes();
    }
  }
  return layer;
}

ecq::result<void> stored_layer::decode(const ecq::cpu& backend, ecq::bf16* buffer) const {
  return decoder_.decode(backend, buffer);
}

void stored_layer::close() { decoder_ = {}; }

void stored_layer::set(std::span<dense_layer> layers, const ecq::bf16* buffer) const noexcept {
  for (std::size_t index = 0; index < matrices_.size(); ++index) {
    const matrix& one = matrices_[index];
    layers[index].set(one.coded ? ecq::matrix_view(buffer + one.place, one.size.rows, one.size.columns)
                                : one.plain.view());
  }
}

layer_matrices pointers_to(std::span<const dense_layer> layers) {
  layer_matrices pointers;
  for (const dense_layer& layer : layers) pointers.push_back(&layer);
  return pointers;
}

}  // namespace llama
