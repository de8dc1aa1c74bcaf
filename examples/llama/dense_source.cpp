// Decodes layers once, as the model is opened.

#include "dense_source.hpp"

#include <cstdint>
#include <utility>

namespace llama {

ecq::result<void> dense_source::add(const ecq::cpu& backend, stored_layer layer) {
  auto next = std::make_unique<decoded_layer>();
  next->stored = std::move(layer);
  next->decoded.resize(next->stored.buffer_weights());
  ECQ_CHECK(next->stored.decode(backend, next->decoded.data()));
  next->stored.close();
  next->matrices = std::vector<dense_layer>(next->stored.size());
  next->stored.set(next->matrices, next->decoded.data());
  memory_.dense += next->stored.plain_bytes() + std::uint64_t{next->decoded.size()} * sizeof(ecq::bf16);
  layers_.push_back(std::move(next));
  return {};
}

ecq::result<layer_matrices> dense_source::layer(std::size_t index) { return pointers_to(layers_[index]->matrices); }

}  // namespace llama
