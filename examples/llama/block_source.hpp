#pragma once
/// \file
/// Layers that stay coded, and are decoded one ahead of the forward pass.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "layer_source.hpp"

namespace llama {

/// Mode `block`, Algorithm 2 of the EntQuant paper: weights stay coded, and a thread decodes a layer into one of two
/// buffers while the layer in the other one computes. Decoding gives the weights of mode `dense`, bit for bit.
class block_source final : public layer_source {
 public:
  /// Takes all layers, of which there is at least one. `backend` decodes.
  block_source(const ecq::cpu& backend, std::vector<stored_layer> layers)
      : backend_(backend), layers_(std::move(layers)) {
    std::size_t largest = 0;
    for (const stored_layer& layer : layers_) {
      largest = (std::max)(largest, layer.buffer_weights());
      memory_.dense += layer.plain_bytes();
      memory_.coded += layer.coded_bytes();
    }
    for (slot& one : slots_) one.memory.resize(largest);
    memory_.buffers = std::uint64_t{slots_.size()} * largest * sizeof(ecq::bf16);
    decoder_ = std::thread([this] { serve(); });
  }
  ~block_source() override {
    {
      const std::scoped_lock lock(guard_);
      stopping_ = true;
    }
    changed_.notify_all();
    decoder_.join();
  }
  block_source(const block_source&) = delete;
  block_source& operator=(const block_source&) = delete;

  ecq::result<by_projection<const linear_layer*>> layer(std::size_t index) override {
    std::unique_lock lock(guard_);
    if (slots_[current_].layer != index) current_ = 1 - current_;
    if (slots_[current_].layer != index) request(lock, current_, index);
    slot& now = slots_[current_];
    changed_.wait(lock, [&] { return wanted_ != current_; });
    if (!now.outcome) {
      now.layer = none;
      return now.outcome.error();
    }
    const std::size_t next = (index + 1) % layers_.size();
    if (next != index && slots_[1 - current_].layer != next) request(lock, 1 - current_, next);
    return pointers_to(now.matrices);
  }
  memory_use memory() const noexcept override { return memory_; }

 private:
  static constexpr std::size_t none = (std::numeric_limits<std::size_t>::max)();

  struct slot {
    std::vector<ecq::bf16> memory;
    std::size_t layer = none;  ///< that is in the memory, or on its way there
    ecq::result<void> outcome;
    by_projection<dense_layer> matrices;
  };

  /// Has the thread decode a layer, once it has finished its last one.
  void request(std::unique_lock<std::mutex>& lock, std::size_t to, std::size_t layer) {
    changed_.wait(lock, [&] { return wanted_ == none; });
    slots_[to].layer = layer;
    wanted_ = to;
    changed_.notify_all();
  }

  void serve() {
    for (std::unique_lock lock(guard_);;) {
      changed_.wait(lock, [&] { return stopping_ || wanted_ != none; });
      if (stopping_) return;
      slot& to = slots_[wanted_];
      lock.unlock();
      decode(to);
      lock.lock();
      wanted_ = none;
      changed_.notify_all();
    }
  }

  void decode(slot& to) const {
    const stored_layer& layer = layers_[to.layer];
    try {
      to.outcome = layer.decode(backend_, to.memory.data());
    } catch (const std::bad_alloc&) {
      to.outcome = ecq::error(ecq::errc::out_of_memory, "no memory to decode layer ", to.layer);
    }
    layer.set(to.matrices, to.memory.data());
  }

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
