#include "tiny_model.hpp"

#include <algorithm>
#include <utility>

namespace llama_test {

tiny_model::tiny_model(bool tied)
    : config{{"architectures", R"(["LlamaForCausalLM"])"},
             {"model_type", R"("llama")"},
             {"hidden_size", std::to_string(hidden)},
             {"intermediate_size", std::to_string(intermediate)},
             {"num_hidden_layers", std::to_string(layers)},
             {"num_attention_heads", std::to_string(heads)},
             {"num_key_value_heads", std::to_string(key_heads)},
             {"head_dim", std::to_string(head_width)},
             {"vocab_size", std::to_string(vocabulary)},
             {"max_position_embeddings", std::to_string(positions)},
             {"rms_norm_eps", "1e-5"},
             {"rope_theta", "500.0"},
             {"hidden_act", R"("silu")"},
             {"tie_word_embeddings", tied ? "true" : "false"}} {
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

void tiny_model::become(std::string_view architecture) {
  static const std::map<std::string_view, const char*> types{
      {"LlamaForCausalLM", "llama"}, {"MistralForCausalLM", "mistral"}, {"MixtralForCausalLM", "mixtral"},
      {"Qwen2ForCausalLM", "qwen2"}, {"Qwen3ForCausalLM", "qwen3"},     {"Qwen3MoeForCausalLM", "qwen3_moe"}};
  const std::string type = types.at(architecture);
  const bool mixtral = type == "mixtral", mistral = type == "mistral" || mixtral, qwen2 = type == "qwen2",
             experts_of_qwen = type == "qwen3_moe", qwen3 = type == "qwen3" || experts_of_qwen;
  config["architectures"] = "[\"" + std::string(architecture) + "\"]";
  config["model_type"] = '"' + type + '"';
  if (mistral) config["sliding_window"] = "7";
  if (!mistral && !qwen2) config["attention_bias"] = "true";
  if (!mistral && !qwen2 && !qwen3) config["mlp_bias"] = "true";
  if (mixtral || experts_of_qwen) add_experts(mixtral);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto bias = [&](const std::string& name) {
      add(prefix + name + ".bias", {tensor_named(prefix + name + ".weight").shape[0]}, 0.5F);
    };
    if (!mistral) {
      for (const char* const name : {"q_proj", "k_proj", "v_proj"}) bias(std::string("self_attn.") + name);
    }
    if (config.count("attention_bias") != 0) bias("self_attn.o_proj");
    if (config.count("mlp_bias") != 0) {
      for (const char* const name : {"gate_proj", "up_proj", "down_proj"}) bias(std::string("mlp.") + name);
    }
    if (!qwen3) continue;
    for (const char* const name : {"q_norm", "k_norm"}) {
      add(prefix + "self_attn." + name + ".weight", {head_width}, 0.3F, 1.0F);
    }
  }
}

void tiny_model::remove(const std::string& name) {
  tensors.erase(tensors.begin() + (&tensor_named(name) - tensors.data()));
  values.erase(name);
}

void tiny_model::add_experts(bool mixtral) {
  config[mixtral ? "num_local_experts" : "num_experts"] = std::to_string(experts);
  config["num_experts_per_tok"] = std::to_string(chosen);
  config[mixtral ? "intermediate_size" : "moe_intermediate_size"] = std::to_string(expert_width);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const char* const name : {"gate", "up", "down"}) remove(prefix + "mlp." + name + "_proj.weight");
    const std::string of_layer = prefix + (mixtral ? "block_sparse_moe." : "mlp.");
    add(of_layer + "gate.weight", {experts, hidden}, 0.3F);
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const std::string of_expert = of_layer + "experts." + std::to_string(expert) + ".";
      add(of_expert + (mixtral ? "w1" : "gate_proj") + ".weight", {expert_width, hidden}, 0.2F);
      add(of_expert + (mixtral ? "w3" : "up_proj") + ".weight", {expert_width, hidden}, 0.2F);
      add(of_expert + (mixtral ? "w2" : "down_proj") + ".weight", {hidden, expert_width}, 0.2F);
    }
  }
}

ecq_test::tensor& tiny_model::tensor_named(std::string_view name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
}

void tiny_model::scale_row(const std::string& name, std::size_t row, float factor) {
  const std::size_t columns = tensor_named(name).shape[1];
  for (std::size_t column = 0; column < columns; ++column) {
    set_weight(name, row, column, values[name][row * columns + column] * factor);
  }
}

void tiny_model::set_weight(const std::string& name, std::size_t row, std::size_t column, float weight) {
  ecq_test::tensor& tensor = tensor_named(name);
  values[name][row * tensor.shape[1] + column] = ecq::bf16(weight);
  tensor.bytes = ecq_test::bytes_of<ecq::bf16>(values[name]);
}

void tiny_model::widen() {
  for (ecq_test::tensor& tensor : tensors) {
    tensor.dtype = "F32";
    tensor.bytes = ecq_test::bytes_of<float>(values[tensor.name]);
  }
}

std::string tiny_model::config_text() const {
  std::string text;
  for (const auto& [name, value] : config) text += (text.empty() ? "{\"" : ", \"") + name + "\": " + value;
  return text + "}";
}

void tiny_model::write(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  ecq_test::write_file(folder / "config.json", config_text());
  ecq_test::write_model(folder / "model.safetensors", tensors);
}

void tiny_model::add(const std::string& name, std::vector<std::uint64_t> shape, float sigma, float mean) {
  const std::size_t columns = shape.size() > 1 ? shape[1] : 1;
  std::vector<float> weights = ecq_test::gaussian(shape[0], columns, tensors.size() + 1, sigma);
  for (float& weight : weights) weight = ecq::bf16(weight + mean);
  tensors.push_back({name, "BF16", std::move(shape), ecq_test::bytes_of<ecq::bf16>(weights)});
  values[name] = std::move(weights);
}

void plant_super_weight(tiny_model& model, float weight) {
  const std::string layer = "model.layers.0.mlp.";
  model.scale_row(layer + "up_proj.weight", 33, 30);
  for (std::size_t row = 0; row < tiny_model::hidden; ++row) {
    model.set_weight(layer + "down_proj.weight", row, 33, row == 17 ? weight : 0.01F);
  }
}

std::vector<std::uint32_t> some_tokens(std::size_t count) {
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = 0; at < count; ++at) {
    tokens.push_back(static_cast<std::uint32_t>((at * 97 + at * at * 13 + 5) % tiny_model::vocabulary));
  }
  return tokens;
}

}  // namespace llama_test
