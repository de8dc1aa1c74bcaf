#pragma once
/// \file
/// Layers that stay coded and are decoded one layer ahead of the forward pass.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "stored_layer.hpp"

namespace llama {

/// Source of mode `block`, Algorithm 2 of the EntQuant paper: weights stay coded, and a thread decodes a layer into one
/// of two buffers while the layer in the other one computes. The decoded weights are those of mode `dense`, bit for
/// bit.
class block_source final : public layer_source {
 public:
  /// Takes all layers, at least one. `backend` decodes them.
  block_source(const ecq::cpu& backend, std::vector<stored_layer> layers);
  ~block_source() override;
  block_source(const block_source&) = delete;
  block_source& operator=(const block_source&) = delete;

  ecq::result<layer_matrices> layer(std::size_t index) override;
  memory_use memory() const noexcept override { return memory_; }

 private:
  static constexpr std::size_t none = (std::numeric_limits<std::size_t>::max)();

  struct slot {
    std::vector<ecq::bf16> memory;
    std::size_t layer = none;  ///< in the memory, or being decoded to it
    ecq::result<void> outcome;
    std::vector<dense_layer> matrices;
  };

  /// Makes the thread decode a layer, once it has finished its last one.
  void request(std::unique_lock<std::mutex>& lock, std::size_t to, std::size_t layer);
  void serve();
  void decode(slot& to) const;

  ecq::cpu backend_;
  std::vector<stored_layer> layers_;
  memory_use memory_;
  std::array<slot, 2> slots_;
  std::size_t current_ = 0;  ///< the slot that the forward pass uses
  std::mutex guard_;
  std::condition_variable changed_;
  std::size_t wanted_ = none;  ///< the slot that is being filled
  bool stopping_ = false;
  std::thread decoder_;
};

}  // namespace llama
