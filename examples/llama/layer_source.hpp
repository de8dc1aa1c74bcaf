#pragma once
/// \file
/// Where the forward pass gets the matrices of a layer from.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "linear_layer.hpp"
#include "stored_tensors.hpp"

namespace llama {

/// The matrices of a transformer layer. Those with the same input stand together.
enum class projection : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t projections = 7;

template <class Value>
using by_projection = std::array<Value, projections>;

/// What the tensor of a matrix of a layer is called.
inline std::string tensor_name(std::size_t layer, projection which) {
  constexpr by_projection<const char*> names{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                             "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                             "mlp.down_proj"};
  return "model.layers." + std::to_string(layer) + "." + names[static_cast<std::size_t>(which)] + ".weight";
}

/// Whether a matrix has the input of the one before it.
constexpr bool shares_input(std::size_t index) noexcept {
  const auto which = static_cast<projection>(index);
  return which == projection::key || which == projection::value || which == projection::up;
}

/// Bytes of weights as they lie in memory, mapped files included.
struct memory_use {
  std::uint64_t dense = 0;    ///< BF16 matrices and FP32 vectors
  std::uint64_t coded = 0;    ///< streams and scales
  std::uint64_t buffers = 0;  ///< that coded weights are decoded to again and again

  std::uint64_t total() const noexcept { return dense + coded + buffers; }
};

/// Hands out the matrices of layer after layer. A mode is a source: the forward pass does not know which.
class layer_source {
 public:
  layer_source() = default;
  layer_source(const layer_source&) = delete;
  layer_source& operator=(const layer_source&) = delete;
  virtual ~layer_source() = default;

  /// The matrices of layer `index`, valid until the next call. One that is multiplied together with those behind it,
  /// which share its input, has their rows behind its own; in their places is null. Calls come in the order of the
  /// layers, and begin again at 0 after the last. Errors are those of decoding.
  virtual ecq::result<by_projection<const linear_layer*>> layer(std::size_t index) = 0;

  virtual memory_use memory() const noexcept = 0;
};

/// The matrices of a layer as they are stored: plain ones are in memory, or in their mapped file, for good; coded ones
/// are decoded to a buffer.
class stored_layer {
 public:
  /// Opens the blocks that hold coded matrices, and loads plain ones. Errors: those of tensor_decoder.
  static ecq::result<stored_layer> open(const ecq::cpu& backend, const by_projection<const stored_tensor*>& tensors) {
    stored_layer layer;
    for (std::size_t index = 0; index < projections; ++index) {
      const stored_tensor& tensor = *tensors[index];
      matrix& one = layer.matrices_[index];
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

  /// The number of weights that decode() writes.
  std::size_t buffer_weights() const noexcept { return buffer_weights_; }
  std::uint64_t coded_bytes() const noexcept { return decoder_.coded_bytes(); }
  std::uint64_t plain_bytes() const noexcept { return plain_bytes_; }

  ecq::result<void> decode(const ecq::cpu& backend, ecq::bf16* buffer) const {
    return decoder_.decode(backend, buffer);
  }

  /// Closes the blocks: nothing is decoded any more.
  void close() { decoder_ = {}; }

  /// Sets the matrices of a layer that was decoded to `buffer`.
  void set(by_projection<dense_layer>& layers, const ecq::bf16* buffer) const noexcept {
    for (std::size_t index = 0; index < projections; ++index) {
      const matrix& one = matrices_[index];
      layers[index].set(one.coded ? ecq::matrix_view(buffer + one.place, one.size.rows, one.size.columns)
                                  : one.plain.view());
    }
  }

 private:
  struct matrix {
    extents size;
    bool coded = false;
    std::size_t place = 0;  ///< of a coded matrix, in the buffer
    bf16_matrix plain;
  };

  by_projection<matrix> matrices_;
  tensor_decoder<ecq::bf16> decoder_;
  std::size_t buffer_weights_ = 0;
  std::uint64_t plain_bytes_ = 0;
};

/// Pointers to the matrices of a layer.
inline by_projection<const linear_layer*> pointers_to(const by_projection<dense_layer>& layers) noexcept {
  by_projection<const linear_layer*> pointers{};
  for (std::size_t index = 0; index < projections; ++index) pointers[index] = &layers[index];
  return pointers;
}

/// Mode `dense`: everything was decoded once, and lies in memory as BF16.
class dense_source final : public layer_source {
 public:
  /// Adds the next layer, decoded by `backend`. Errors: those of ecq::block_decoder::decode.
  ecq::result<void> add(const ecq::cpu& backend, stored_layer layer) {
    auto next = std::make_unique<decoded_layer>();
    next->stored = std::move(layer);
    next->decoded.resize(next->stored.buffer_weights());
    ECQ_CHECK(next->stored.decode(backend, next->decoded.data()));
    next->stored.close();
    next->stored.set(next->matrices, next->decoded.data());
    memory_.dense += next->stored.plain_bytes() + std::uint64_t{next->decoded.size()} * sizeof(ecq::bf16);
    layers_.push_back(std::move(next));
    return {};
  }

  ecq::result<by_projection<const linear_layer*>> layer(std::size_t index) override {
    return pointers_to(layers_[index]->matrices);
  }
  memory_use memory() const noexcept override { return memory_; }

 private:
  struct decoded_layer {
    stored_layer stored;
    std::vector<ecq::bf16> decoded;
    by_projection<dense_layer> matrices;
  };

  std::vector<std::unique_ptr<decoded_layer>> layers_;
  memory_use memory_;
};

}  // namespace llama
