// Memory for keys and values, which grows with the positions.

#include "kv_cache.hpp"

#include "model_config.hpp"

namespace llama {

kv_cache::kv_cache(const model_config& config)
    : layers_(config.layers), width_(config.key_width()), positions_(config.positions) {}

void kv_cache::extend(std::size_t tokens) {
  for (auto& [keys, values] : layers_) {
    if (keys.size() >= (length_ + tokens) * width_) continue;
    keys.resize((length_ + tokens) * width_);
    values.resize((length_ + tokens) * width_);
  }
}

}  // namespace llama
