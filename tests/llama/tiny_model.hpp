#pragma once
// A random Llama-shaped model of two layers in a folder, whose parts tests can change or damage.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/format/bf16.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace llama_test {

/// Tiny Llama-shaped model. Four heads of queries share two of keys; the width of a head is not hidden / heads, and no
/// width but that of the residual stream is a multiple of 64.
struct tiny_model {
  static constexpr std::size_t hidden = 64, intermediate = 88, layers = 2, heads = 4, key_heads = 2, head_width = 12,
                               vocabulary = 271, positions = 48;

  /// Members of config.json, with values as JSON text since the JSON library takes long to compile.
  std::map<std::string, std::string, std::less<>> config;
  std::vector<ecq_test::tensor> tensors;
  std::map<std::string, std::vector<float>> values;  ///< weights of `tensors`, by name

  explicit tiny_model(bool tied = false);

  /// Changes the architecture of the model, and adds a window of 7 tokens, biases, norms of heads or experts where it
  /// has them: MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM.
  /// LlamaForCausalLM gets all biases.
  void become(std::string_view architecture);

  /// Experts of a layer that has some, of which each token takes three.
  static constexpr std::size_t experts = 5, chosen = 3, expert_width = 40;

  ecq_test::tensor& tensor_named(std::string_view name);

  /// Multiplies row `row` of a matrix by `factor`, rounded to BF16.
  void scale_row(const std::string& name, std::size_t row, float factor);

  /// Sets a weight of a matrix, rounded to BF16.
  void set_weight(const std::string& name, std::size_t row, std::size_t column, float weight);

  /// Converts all tensors to FP32 without a change of their values.
  void widen();

  std::string config_text() const;
  void write(const std::filesystem::path& folder) const;

 private:
  void add(const std::string& name, std::vector<std::uint64_t> shape, float sigma, float mean = 0);
  void remove(const std::string& name);

  /// Replaces the network of each layer by experts, with the names of Mixtral or of Qwen3.
  void add_experts(bool mixtral);
};

/// Plants a weight that is super at the usual threshold in row 17 and column 33 of the first layer's down projection.
/// The input of its column is large, as in models that have super weights; the other weights of the column are small.
void plant_super_weight(tiny_model& model, float weight = 200);

/// Returns `count` tokens of the vocabulary, always the same.
std::vector<std::uint32_t> some_tokens(std::size_t count);

}  // namespace llama_test
