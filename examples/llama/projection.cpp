// Names of the matrices of a layer.

#include "projection.hpp"

namespace llama {

std::string layer_name(std::size_t layer) { return "model.layers." + std::to_string(layer) + "."; }

namespace {

std::string module_name(std::size_t layer, projection which) {
  constexpr by_projection<const char*> names{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                             "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                             "mlp.down_proj"};
  return layer_name(layer) + names[static_cast<std::size_t>(which)];
}

}  // namespace

std::string tensor_name(std::size_t layer, projection which) { return module_name(layer, which) + ".weight"; }

std::string bias_name(std::size_t layer, projection which) { return module_name(layer, which) + ".bias"; }

}  // namespace llama
