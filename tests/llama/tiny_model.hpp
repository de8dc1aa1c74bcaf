#pragma once
// A random Llama-shaped model of two layers in a folder, and the folder's parts for tests that spoil one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/format/bf16.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace llama_test {

/// Four heads of queries share two of keys; the head's width is not hidden / heads, and no width but the residual
/// stream's is a multiple of 64.
struct tiny_model {
  static constexpr std::size_t hidden = 64, intermediate = 88, layers = 2, heads = 4, key_heads = 2, head_width = 12,
                               vocabulary = 271, positions = 48;

  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"hidden_size", hidden},
                           {"intermediate_size", intermediate},
                           {"num_hidden_layers", layers},
                           {"num_attention_heads", heads},
                           {"num_key_value_heads", key_heads},
                           {"head_dim", head_width},
                           {"vocab_size", vocabulary},
                           {"max_position_embeddings", positions},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 500.0},
                           {"hidden_act", "silu"},
                           {"tie_word_embeddings", false}};
  std::vector<ecq_test::tensor> tensors;
  std::map<std::string, std::vector<float>> values;  ///< the weights of `tensors`, by name

  explicit tiny_model(bool tied = false) {
    config["tie_word_embeddings"] = tied;
    add("model.embed_tokens.weight", {vocabulary, hidden}, 1.0F);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(prefix + "input_layernorm.weight", {hidden}, 0.3F, 1.0F);
      add(prefix + "self_attn.q_proj.weight", {heads * head_width, hidden}, 0.2F);
      add(prefix + "self_attn.k_proj.weight", {key_heads * head_width, hidden}, 0.2F);
      add(prefix + "self_attn.v_proj.weight", {key_heads * head_width, hidden}, 0.2F);
      add(prefix + "self_attn.o_proj.weight", {hidden, heads * head_width}, 0.2F);
      add(prefix + "post_attention_layernorm.weight", {hidden}, 0.3F, 1.0F);
      add(prefix + "mlp.gate_proj.weight", {intermediate, hidden}, 0.2F);
      add(prefix + "mlp.up_proj.weight", {intermediate, hidden}, 0.2F);
      add(prefix + "mlp.down_proj.weight", {hidden, intermediate}, 0.2F);
    }
    add("model.norm.weight", {hidden}, 0.3F, 1.0F);
    if (!tied) add("lm_head.weight", {vocabulary, hidden}, 0.2F);
  }

  ecq_test::tensor& tensor_named(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
  }

  /// Multiplies row `row` of a matrix by `factor`, rounded to BF16.
  void scale_row(const std::string& name, std::size_t row, float factor) {
    const std::size_t columns = tensor_named(name).shape[1];
    for (std::size_t column = 0; column < columns; ++column) {
      set_weight(name, row, column, values[name][row * columns + column] * factor);
    }
  }

  /// Sets a weight of a matrix, rounded to BF16.
  void set_weight(const std::string& name, std::size_t row, std::size_t column, float weight) {
    ecq_test::tensor& tensor = tensor_named(name);
    values[name][row * tensor.shape[1] + column] = ecq::bf16(weight);
    tensor.bytes = ecq_test::bytes_of<ecq::bf16>(values[name]);
  }

  /// Makes all tensors FP32, which leaves their values.
  void widen() {
    for (ecq_test::tensor& tensor : tensors) {
      tensor.dtype = "F32";
      tensor.bytes = ecq_test::bytes_of<float>(values[tensor.name]);
    }
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    ecq_test::write_file(folder / "config.json", config.dump());
    ecq_test::write_model(folder / "model.safetensors", tensors);
  }

 private:
  void add(const std::string& name, std::vector<std::uint64_t> shape, float sigma, float mean = 0) {
    const std::size_t columns = shape.size() > 1 ? shape[1] : 1;
    std::vector<float> weights = ecq_test::gaussian(shape[0], columns, tensors.size() + 1, sigma);
    for (float& weight : weights) weight = ecq::bf16(weight + mean);
    tensors.push_back({name, "BF16", std::move(shape), ecq_test::bytes_of<ecq::bf16>(weights)});
    values[name] = std::move(weights);
  }
};

/// Plants a weight that is super at the usual threshold in row 17 and column 33 of the first layer's down projection.
/// The input of its column is large, as it is in models that have one; for other rows that is no matter.
inline void plant_super_weight(tiny_model& model, float weight = 200) {
  const std::string layer = "model.layers.0.mlp.";
  model.scale_row(layer + "up_proj.weight", 33, 30);
  for (std::size_t row = 0; row < tiny_model::hidden; ++row) {
    model.set_weight(layer + "down_proj.weight", row, 33, row == 17 ? weight : 0.01F);
  }
}

/// `count` tokens of the vocabulary, always the same.
inline std::vector<std::uint32_t> some_tokens(std::size_t count) {
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = 0; at < count; ++at) {
    tokens.push_back(static_cast<std::uint32_t>((at * 97 + at * at * 13 + 5) % tiny_model::vocabulary));
  }
  return tokens;
}

}  // namespace llama_test
