// The thread that decodes one layer while another computes, and its synchronisation with the forward pass.

#include "block_source.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace llama {

block_source::block_source(const ecq::cpu& backend, std::vector<stored_layer> layers)
    : backend_(backend), layers_(std::move(layers)) {
  std::size_t largest = 0;
  for (const stored_layer& layer : layers_) {
    largest = (std::max)(largest, layer.buffer_weights());
    memory_.dense += layer.plain_bytes();
    memory_.coded += layer.coded_bytes();
  }
  for (slot& one : slots_) {
    one.memory.resize(largest);
    one.matrices = std::vector<dense_layer>(layers_.front().size());
  }
  memory_.buffers = std::uint64_t{slots_.size()} * largest * sizeof(ecq::bf16);
  decoder_ = std::thread([this] { serve(); });
}

block_source::~block_source() {
  {
    const std::scoped_lock lock(guard_);
    stopping_ = true;
  }
  changed_.notify_all();
  decoder_.join();
}

ecq::result<layer_matrices> block_source::layer(std::size_t index) {
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

void block_source::request(std::unique_lock<std::mutex>& lock, std::size_t to, std::size_t layer) {
  changed_.wait(lock, [&] { return wanted_ == none; });
  slots_[to].layer = layer;
  wanted_ = to;
  changed_.notify_all();
}

void block_source::serve() {
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

void block_source::decode(slot& to) const {
  const stored_layer& layer = layers_[to.layer];
  try {
    to.outcome = layer.decode(backend_, to.memory.data());
  } catch (const std::bad_alloc&) {
    to.outcome = ecq::error(ecq::errc::out_of_memory, "no memory to decode layer ", to.layer);
  }
  layer.set(to.matrices, to.memory.data());
}

}  // namespace llama
