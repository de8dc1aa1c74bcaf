// Parsing of config.json, and values that are refused.

#include "../../examples/llama/model_config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "llama/tiny_model.hpp"

namespace {

using ecq::errc;
using llama_test::tiny_model;
using nlohmann::json;

/// Returns the error of the tiny model's config with `changes`; null removes a member.
std::string error_with(const json& changes) {
  json config = json::parse(tiny_model().config_text());
  config.merge_patch(changes);
  const auto parsed = llama::parse_model_config(config);
  return parsed ? "" : parsed.error().to_string();
}

json with(json changes, const char* name, const json& value) {
  changes[name] = value;
  return changes;
}

TEST(ModelConfig, MayNotBeNestedWithoutEnd) {
  const std::string deep = R"({"eos_token_id": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(llama::parse_json_object(deep).error().to_string(), "corrupt: is JSON nested more than 64 levels deep");
  EXPECT_TRUE(llama::parse_json_object(R"({"a": "[[[", "b": [[[]]], "c": "\\"})"));
}

TEST(LlamaConfig, GivesShapeAndConstants) {
  json from = json::parse(tiny_model().config_text());
  from["bos_token_id"] = 3;
  from["eos_token_id"] = {4, 5};
  const auto config = llama::parse_model_config(from);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->hidden, 64U);
  EXPECT_EQ(config->query_width(), 48U);
  EXPECT_EQ(config->key_width(), 24U);
  EXPECT_EQ(config->rotary.theta, 500.0);
  EXPECT_EQ(config->norm_epsilon, 1e-5);
  EXPECT_EQ(config->begin_token, 3U);
  EXPECT_EQ(config->end_tokens, (std::vector<std::uint32_t>{4, 5}));
  EXPECT_FALSE(config->tied);
}

TEST(LlamaConfig, MissingMembersHaveTheUsualMeaning) {
  json from = json::parse(tiny_model().config_text());
  for (const char* const name :
       {"head_dim", "num_key_value_heads", "rope_theta", "tie_word_embeddings", "hidden_act"}) {
    from.erase(name);
  }
  const auto config = llama::parse_model_config(from);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->head_width, 16U);
  EXPECT_EQ(config->key_heads, 4U);
  EXPECT_EQ(config->rotary.theta, 10000.0);
  from["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7.5}};
  EXPECT_EQ(llama::parse_model_config(from)->rotary.theta, 7.5);
}

TEST(LlamaConfig, RefusesOtherArchitectures) {
  EXPECT_EQ(
      error_with({{"architectures", {"GemmaForCausalLM"}}}),
      "unsupported: architecture 'GemmaForCausalLM', not that of Llama, Mistral, Mixtral, Qwen2, Qwen3 or Qwen3Moe "
      "(ForCausalLM)");
  EXPECT_NE(error_with({{"architectures", nullptr}, {"model_type", "gpt2"}}), "");
  EXPECT_EQ(error_with({{"architectures", nullptr}}), "");
  EXPECT_EQ(error_with({{"hidden_act", "gelu"}}), "unsupported: hidden_act \"gelu\", not \"silu\"");
  for (const char* const other : {"MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const json of_other{{"architectures", {other}}, {"model_type", nullptr}};
    EXPECT_EQ(error_with(with(of_other, "mlp_bias", true)), "unsupported: mlp_bias");
    EXPECT_EQ(error_with(with(of_other, "num_key_value_heads", nullptr)), "not found: num_key_value_heads is missing");
  }
  const json qwen2{{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "qwen2"}};
  EXPECT_EQ(error_with(with(qwen2, "attention_bias", true)), "unsupported: attention_bias");
  EXPECT_EQ(error_with(with(qwen2, "use_sliding_window", true)), "unsupported: sliding_window");
  EXPECT_EQ(error_with({{"model_type", "mistral"}}), "unsupported: model_type 'mistral', not llama");
  EXPECT_EQ(error_with({{"model_type", nullptr}}), "");
  EXPECT_EQ(error_with({{"mlp_bias", 1}}), "corrupt: mlp_bias: neither true nor false");
}

TEST(LlamaConfig, FamiliesDifferAsTheirsDo) {
  using biases = llama::by_projection<bool>;
  const auto config_of = [](const char* architecture, const json& changes) {
    json from = json::parse(tiny_model().config_text());
    from["architectures"] = {architecture};
    from.erase("model_type");
    from.update(changes);
    auto config = llama::parse_model_config(from);
    EXPECT_TRUE(config) << config.error().to_string();
    return std::move(*config);
  };
  const auto plain = config_of("LlamaForCausalLM", {{"sliding_window", nullptr}});
  EXPECT_EQ(plain.biases, biases{});
  EXPECT_EQ(plain.window, tiny_model::positions);
  EXPECT_FALSE(plain.head_norms);
  EXPECT_EQ(config_of("LlamaForCausalLM", {{"attention_bias", true}}).biases, (biases{true, true, true, true}));
  EXPECT_EQ(config_of("LlamaForCausalLM", {{"mlp_bias", true}}).biases,
            (biases{false, false, false, false, true, true, true}));

  EXPECT_EQ(config_of("MistralForCausalLM", {{"sliding_window", 7}}).window, 7U);
  EXPECT_EQ(config_of("MistralForCausalLM", {{"sliding_window", nullptr}}).window, tiny_model::positions);
  EXPECT_EQ(config_of("MistralForCausalLM", json::object()).window, 4096U);

  EXPECT_EQ(config_of("Qwen2ForCausalLM", {{"sliding_window", 7}}).biases, (biases{true, true, true}));
  EXPECT_EQ(config_of("Qwen2ForCausalLM", {{"sliding_window", 7}}).window, tiny_model::positions);

  const auto qwen3 = config_of("Qwen3ForCausalLM", {{"attention_bias", true}, {"head_dim", nullptr}});
  EXPECT_EQ(qwen3.biases, (biases{true, true, true, true}));
  EXPECT_TRUE(qwen3.head_norms);
  EXPECT_EQ(qwen3.head_width, 128U);
}

TEST(LlamaConfig, MixturesDifferAsTheirsDo) {
  const auto config_of = [](const char* architecture, const json& changes) {
    json from = json::parse(tiny_model().config_text());
    from["architectures"] = {architecture};
    from.erase("model_type");
    from.merge_patch(changes);
    return llama::parse_model_config(from);
  };
  const auto error_of = [&](const char* architecture, const json& changes) {
    const auto config = config_of(architecture, changes);
    return config ? "" : config.error().to_string();
  };
  using llama::expert_names;
  const char* const mixtral = "MixtralForCausalLM";
  const char* const qwen3 = "Qwen3MoeForCausalLM";
  const auto usual = config_of(mixtral, {{"rope_theta", nullptr}, {"rms_norm_eps", nullptr}});
  ASSERT_TRUE(usual) << usual.error().to_string();
  EXPECT_EQ(usual->mixture, (llama::expert_mixture{8, 2, true, expert_names::mixtral}));
  EXPECT_EQ(usual->intermediate, tiny_model::intermediate);
  EXPECT_EQ(usual->rotary.theta, 1e6);
  EXPECT_EQ(usual->norm_epsilon, 1e-5);
  EXPECT_EQ(usual->window, tiny_model::positions);
  EXPECT_FALSE(usual->head_norms);
  EXPECT_EQ(config_of(mixtral, {{"sliding_window", 7}})->window, 7U);
  EXPECT_EQ(config_of(mixtral, {{"num_local_experts", 5}})->mixture.experts, 5U);
  EXPECT_EQ(config_of(mixtral, {{"num_experts", 5}})->mixture.experts, 5U);
  EXPECT_EQ(error_of(mixtral, {{"attention_bias", true}}), "unsupported: attention_bias");
  EXPECT_EQ(error_of(mixtral, {{"num_experts_per_tok", 9}}),
            "corrupt: num_experts_per_tok: not an integer from 1 to 8");
  EXPECT_EQ(error_of(mixtral, {{"num_local_experts", 0}}), "corrupt: num_local_experts: not an integer from 1 to 4096");
  EXPECT_EQ(error_of(mixtral, {{"num_local_experts", 4}, {"num_experts", 5}}),
            "corrupt: num_experts is 5, but num_local_experts is 4");

  const auto other = config_of(qwen3, {{"attention_bias", true}});
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_EQ(other->mixture, (llama::expert_mixture{128, 8, false, expert_names::qwen3}));
  EXPECT_EQ(other->intermediate, 768U);
  EXPECT_TRUE(other->head_norms);
  EXPECT_EQ(other->biases, (llama::by_projection<bool>{true, true, true, true}));
  EXPECT_EQ(config_of(qwen3, {{"head_dim", nullptr}})->head_width, tiny_model::hidden / tiny_model::heads);
  const auto named = config_of(
      qwen3, {{"num_experts", 6}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 9}, {"norm_topk_prob", true}});
  EXPECT_EQ(named->mixture, (llama::expert_mixture{6, 3, true, expert_names::qwen3}));
  EXPECT_EQ(named->intermediate, 9U);
  EXPECT_EQ(error_of(qwen3, {{"num_experts", 4}}), "corrupt: num_experts_per_tok: 8, more than the 4 experts");
  EXPECT_EQ(error_of(qwen3, {{"decoder_sparse_step", 2}}),
            "unsupported: decoder_sparse_step 2, not 1: some layers have no experts");
  EXPECT_EQ(error_of(qwen3, {{"mlp_only_layers", json::array()}}), "");
  EXPECT_EQ(error_of(qwen3, {{"mlp_only_layers", {1}}}), "unsupported: mlp_only_layers [1]");
}

TEST(LlamaConfig, RefusesAttentionToLessThanAll) {
  EXPECT_EQ(error_with({{"sliding_window", 16}}), "unsupported: sliding_window");
  EXPECT_EQ(error_with({{"sliding_window", 16}, {"use_sliding_window", false}}), "");
  EXPECT_EQ(error_with({{"layer_types", {"full_attention", "full_attention"}}}), "");
  EXPECT_EQ(error_with({{"layer_types", {"full_attention", "sliding_attention"}}}),
            "unsupported: layer_types: \"sliding_attention\", not \"full_attention\"");
  EXPECT_EQ(error_with({{"layer_types", "full_attention"}}), "corrupt: layer_types: not an array");
}

TEST(LlamaConfig, RefusesWeightsThatOthersHaveQuantised) {
  EXPECT_EQ(error_with({{"quantization_config", {{"quant_method", "gptq"}}}}),
            "unsupported: quantization_config: quant_method 'gptq'");
  EXPECT_EQ(error_with({{"quantization_config", {{"format", "ecq"}}}}), "");
}

TEST(LlamaConfig, TokensThatEndTextsAreThoseOfGeneration) {
  const ecq_test::temporary_folder folder;
  tiny_model model;
  model.config["eos_token_id"] = "4";
  model.config["bos_token_id"] = "5";
  ecq_test::write_file(folder / "config.json", model.config_text());
  EXPECT_EQ(llama::read_model_config(folder.path())->end_tokens, (std::vector<std::uint32_t>{4}));
  ecq_test::write_file(folder / "generation_config.json", R"({"eos_token_id": [6, 7]})");
  EXPECT_EQ(llama::read_model_config(folder.path())->end_tokens, (std::vector<std::uint32_t>{6, 7}));
  EXPECT_FALSE(llama::read_model_config(folder.path())->begin_token);
  ecq_test::write_file(folder / "generation_config.json", R"({"bos_token_id": 8})");
  EXPECT_EQ(llama::read_model_config(folder.path())->begin_token, 8U);
  EXPECT_TRUE(llama::read_model_config(folder.path())->end_tokens.empty());
  ecq_test::write_file(folder / "generation_config.json", R"({"eos_token_id": 271})");
  EXPECT_TRUE(llama::read_model_config(folder.path())
                  .error()
                  .message()
                  .ends_with("generation_config.json': eos_token_id: not an integer from 0 to 270"));
}

TEST(LlamaConfig, RefusesOddSizes) {
  for (const char* const name : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                                 "vocab_size", "max_position_embeddings"}) {
    EXPECT_EQ(error_with({{name, nullptr}}), "not found: " + std::string(name) + " is missing");
    for (const json& odd : {json(0), json(-1), json(1.5), json("64"), json(1e30), json::array({64})}) {
      EXPECT_TRUE(error_with({{name, odd}}).starts_with("corrupt: " + std::string(name) + ": not an integer"))
          << name << ' ' << odd;
    }
  }
  EXPECT_NE(error_with({{"num_key_value_heads", 3}}), "");
  EXPECT_NE(error_with({{"num_key_value_heads", 8}}), "");
  EXPECT_NE(error_with({{"head_dim", 7}}), "");
  EXPECT_NE(error_with({{"head_dim", nullptr}, {"hidden_size", 65}}), "");
  EXPECT_NE(error_with({{"eos_token_id", 271}}), "");
  EXPECT_NE(error_with({{"bos_token_id", "x"}}), "");
}

TEST(LlamaConfig, RefusesOddConstants) {
  for (const json& odd : {json(0), json(-1.0), json("1e-5"), json(true)}) {
    EXPECT_EQ(error_with({{"rms_norm_eps", odd}}), "corrupt: rms_norm_eps: not a finite number above 0") << odd;
    EXPECT_NE(error_with({{"rope_theta", odd}}), "") << odd;
  }
}

TEST(LlamaConfig, RefusesFilesThatAreNoObject) {
  const ecq_test::temporary_folder folder;
  const auto error_of = [&](const std::string& text) {
    ecq_test::write_file(folder / "config.json", text);
    const auto config = llama::read_model_config(folder.path());
    return config ? "" : config.error().message();
  };
  std::string nan = tiny_model().config_text();
  nan.replace(nan.find("500.0"), 5, "NaN");
  EXPECT_TRUE(error_of(nan).ends_with("config.json': rope_theta: not a finite number above 0")) << error_of(nan);
  for (const char* const number : {"NaN", "[Infinity, -Infinity]", R"("\\\"NaN")"}) {
    tiny_model elsewhere;
    elsewhere.config["initializer_range"] = number;
    EXPECT_EQ(error_of(elsewhere.config_text()), "") << number;
  }
  std::string huge = tiny_model().config_text();
  huge.replace(huge.find("500.0"), 5, "1e999");
  EXPECT_NE(error_of(huge), "");
  EXPECT_NE(error_of("{"), "");
  EXPECT_NE(error_of(""), "");
  EXPECT_TRUE(error_of("[]").ends_with("is not a JSON object"));
  EXPECT_EQ(error_of(tiny_model().config_text()), "");
  EXPECT_EQ(llama::read_model_config(folder / "nowhere").error().code(), errc::not_found);
}

}  // namespace
