#pragma once
/// \file
/// The keys and values of the tokens so far.

#include <cstddef>
#include <vector>

namespace llama {

struct model_config;

/// Keys and values of every layer, FP32: for each position, those of all heads one after another. Memory grows with the
/// positions.
class kv_cache {
 public:
  explicit kv_cache(const model_config& config);

  /// Number of tokens whose keys and values all layers have.
  std::size_t length() const noexcept { return length_; }
  /// Maximum number of tokens: the context of the model.
  std::size_t positions() const noexcept { return positions_; }
  /// Bytes of keys and values.
  std::size_t size_bytes() const noexcept { return 2 * layers_.size() * length_ * width_ * sizeof(float); }

  /// Forgets all tokens, but keeps the memory.
  void clear() noexcept { length_ = 0; }

  /// Makes room for `tokens` more tokens in all layers.
  void extend(std::size_t tokens);
  /// Adds `tokens`, which all layers have now, to the length.
  void advance(std::size_t tokens) noexcept { length_ += tokens; }

  float* key(std::size_t layer, std::size_t position) noexcept { return &layers_[layer].keys[position * width_]; }
  float* value(std::size_t layer, std::size_t position) noexcept { return &layers_[layer].values[position * width_]; }

 private:
  struct kept {
    std::vector<float> keys, values;
  };

  std::vector<kept> layers_;
  std::size_t width_;
  std::size_t positions_;
  std::size_t length_ = 0;
};

}  // namespace llama
