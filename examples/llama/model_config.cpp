// Reads the members of config.json, one after another, each with its limits.

#include "model_config.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace llama {

namespace {

/// Largest sizes that a config.json may have: far above those of every model, and small enough that no product
/// overflows.
struct config_limits {
  static constexpr std::uint64_t width = 1 << 22;
  static constexpr std::uint64_t layers = 1 << 12;
  static constexpr std::uint64_t heads = 1 << 12;
  static constexpr std::uint64_t experts = 1 << 12;
  static constexpr std::uint64_t head_width = 1 << 12;
  static constexpr std::uint64_t vocabulary = 1 << 24;
  static constexpr std::uint64_t positions = std::uint64_t{1} << 31;
};

template <class... Parts>
ecq::error unsupported(const Parts&... parts) {
  return ecq::error(ecq::errc::unsupported, parts...);
}

/// Decoders that differ little from that of Llama.
enum class family : std::uint8_t { llama, mistral, mixtral, qwen2, qwen3, qwen3_moe };

constexpr bool has_experts(family which) noexcept { return which == family::mixtral || which == family::qwen3_moe; }

/// Returns the family of a decoder. Programs choose it by either of two members, so both have to name the same one.
ecq::result<family> family_of(const json& config) {
  struct names {
    family which;
    const char *type, *architecture;
  };
  constexpr std::array<names, 6> known{{{family::llama, "llama", "LlamaForCausalLM"},
                                        {family::mistral, "mistral", "MistralForCausalLM"},
                                        {family::mixtral, "mixtral", "MixtralForCausalLM"},
                                        {family::qwen2, "qwen2", "Qwen2ForCausalLM"},
                                        {family::qwen3, "qwen3", "Qwen3ForCausalLM"},
                                        {family::qwen3_moe, "qwen3_moe", "Qwen3MoeForCausalLM"}}};
  const json* const all = find_member(config, "architectures");
  const json* const type = find_member(config, "model_type");
  const auto found = std::ranges::find_if(known, [&](const names& one) {
    return all != nullptr ? *all == json::array({one.architecture}) : type != nullptr && *type == one.type;
  });
  if (found == known.end()) {
    const bool one = all != nullptr && all->is_array() && all->size() == 1 && (*all)[0].is_string();
    const std::string named = one              ? (*all)[0].get<std::string>()
                              : all != nullptr ? all->dump()
                                               : std::string(text_member(config, "model_type"));
    return unsupported("architecture '", named,
                       "', not that of Llama, Mistral, Mixtral, Qwen2, Qwen3 or Qwen3Moe (ForCausalLM)");
  }
  if (type != nullptr && *type != found->type) {
    return unsupported("model_type '", text_member(config, "model_type"), "', not ", found->type);
  }
  return found->which;
}

/// Reads the window of attention: the number of tokens that it reaches back.
ecq::result<void> read_window(const json& from, family which, model_config& to) {
  to.window = to.positions;
  const bool has_window = find_member(from, "sliding_window") != nullptr;
  if (which == family::mistral || which == family::mixtral) {
    const bool is_null = from.contains("sliding_window") && !has_window;  // none, not Mistral's own default
    const std::size_t usual = which == family::mistral && !is_null ? 4096 : to.positions;
    ECQ_TRY(window, integer_member(from, "sliding_window", 1, config_limits::positions, usual));
    to.window = window;
    return {};
  }
  ECQ_TRY(slides, flag_member(from, "use_sliding_window", which == family::llama && has_window));
  if (slides) return unsupported("sliding_window");
  const json* types = find_member(from, "layer_types");
  if (types == nullptr) return {};
  if (!types->is_array()) return ecq::error(ecq::errc::corrupt, "layer_types: not an array");
  for (const json& one : *types) {
    if (one != "full_attention") return unsupported("layer_types: ", one.dump(), ", not \"full_attention\"");
  }
  return {};
}

/// Reads the members by which families and models of a family differ, as each family's own config has them.
ecq::result<void> read_variant(const json& from, family which, model_config& to) {
  if (const json* act = find_member(from, "hidden_act"); act != nullptr && *act != "silu") {
    return unsupported("hidden_act ", act->dump(), ", not \"silu\"");
  }
  ECQ_TRY(of_attention, flag_member(from, "attention_bias"));
  ECQ_TRY(of_feed_forward, flag_member(from, "mlp_bias"));
  const bool is_qwen3 = which == family::qwen3 || which == family::qwen3_moe;
  const bool takes_attention_bias = which == family::llama || is_qwen3;
  if (of_attention && !takes_attention_bias) return unsupported("attention_bias");
  if (of_feed_forward && which != family::llama) return unsupported("mlp_bias");
  const bool inputs = of_attention || which == family::qwen2;
  to.biases = {inputs, inputs, inputs, of_attention, of_feed_forward, of_feed_forward, of_feed_forward};
  to.head_norms = is_qwen3;
  const json* quantization = find_member(from, "quantization_config");
  if (quantization != nullptr && text_member(*quantization, "format") != "ecq") {
    return unsupported("quantization_config: quant_method '", text_member(*quantization, "quant_method"), "'");
  }
  return {};
}

/// Reads the members about the experts of layers. Precondition: read_sizes() has read the other sizes.
ecq::result<void> read_mixture(const json& from, family which, model_config& to) {
  if (!has_experts(which)) return {};
  const bool is_mixtral = which == family::mixtral;
  const auto chosen_by_default = is_mixtral ? 2U : 8U;
  // transformers takes either name.
  const bool local = find_member(from, "num_local_experts") != nullptr;
  const char* const name = local ? "num_local_experts" : "num_experts";
  ECQ_TRY(experts, integer_member(from, name, 1, config_limits::experts, is_mixtral ? 8U : 128U));
  if (local && find_member(from, "num_experts") != nullptr) {
    ECQ_TRY(same, integer_member(from, "num_experts", 1, config_limits::experts));
    if (same != experts) {
      return ecq::error(ecq::errc::corrupt, "num_experts is ", same, ", but num_local_experts is ", experts);
    }
  }
  ECQ_TRY(chosen, integer_member(from, "num_experts_per_tok", 1, experts, chosen_by_default));
  if (chosen > experts) {
    return ecq::error(ecq::errc::corrupt, "num_experts_per_tok: ", chosen, ", more than the ", experts, " experts");
  }
  to.mixture = {experts, chosen, true, expert_names::mixtral};
  if (is_mixtral) return {};
  to.mixture.names = expert_names::qwen3;
  ECQ_TRY(sum_to_one, flag_member(from, "norm_topk_prob"));
  to.mixture.shares_sum_to_one = sum_to_one;
  ECQ_TRY(intermediate, integer_member(from, "moe_intermediate_size", 1, config_limits::width, 768));
  to.intermediate = intermediate;
  ECQ_TRY(step, integer_member(from, "decoder_sparse_step", 1, config_limits::layers, 1));
  if (step != 1) return unsupported("decoder_sparse_step ", step, ", not 1: some layers have no experts");
  const json* const dense = find_member(from, "mlp_only_layers");
  if (dense != nullptr && !dense->empty()) return unsupported("mlp_only_layers ", dense->dump());
  return {};
}

ecq::result<void> read_sizes(const json& from, family which, model_config& to) {
  using limits = config_limits;
  ECQ_TRY(hidden, integer_member(from, "hidden_size", 1, limits::width));
  ECQ_TRY(intermediate, integer_member(from, "intermediate_size", 1, limits::width));
  ECQ_TRY(layers, integer_member(from, "num_hidden_layers", 1, limits::layers));
  ECQ_TRY(heads, integer_member(from, "num_attention_heads", 1, limits::heads));
  std::optional<std::uint64_t> usual_key_heads;
  if (which == family::llama) usual_key_heads = heads;
  ECQ_TRY(key_heads, integer_member(from, "num_key_value_heads", 1, limits::heads, usual_key_heads));
  ECQ_TRY(vocabulary, integer_member(from, "vocab_size", 1, limits::vocabulary));
  ECQ_TRY(positions, integer_member(from, "max_position_embeddings", 1, limits::positions));
  if (heads % key_heads != 0) {
    return ecq::error(ecq::errc::corrupt, "num_attention_heads: ", heads, ", not a multiple of ", key_heads,
                      " num_key_value_heads");
  }
  const bool has_width = which == family::qwen3 || find_member(from, "head_dim") != nullptr;
  if (!has_width && hidden % heads != 0) {
    return ecq::error(ecq::errc::corrupt, "hidden_size: ", hidden, ", not a multiple of ", heads,
                      " num_attention_heads, and there is no head_dim");
  }
  ECQ_TRY(head_width,
          integer_member(from, "head_dim", 1, limits::head_width, which == family::qwen3 ? 128 : hidden / heads));
  if (head_width % 2 != 0 || head_width > limits::head_width) {
    return ecq::error(ecq::errc::corrupt, "heads of width ", head_width, ", not an even number up to ",
                      limits::head_width);
  }
  to.hidden = hidden;
  to.intermediate = intermediate;
  to.layers = layers;
  to.heads = heads;
  to.key_heads = key_heads;
  to.head_width = head_width;
  to.vocabulary = vocabulary;
  to.positions = positions;
  return {};
}

/// Reads the tokens that begin and end texts; a config need not have any.
ecq::result<void> read_special_tokens(const json& from, model_config& to) {
  const auto highest = std::uint64_t{to.vocabulary} - 1;
  if (find_member(from, "bos_token_id") != nullptr) {
    ECQ_TRY(begin, integer_member(from, "bos_token_id", 0, highest));
    to.begin_token = static_cast<std::uint32_t>(begin);
  }
  const json* end = find_member(from, "eos_token_id");
  if (end == nullptr) return {};
  const json all = end->is_array() ? *end : json::array({*end});
  for (const json& one : all) {
    ECQ_TRY(token, integer_member(json{{"eos_token_id", one}}, "eos_token_id", 0, highest));
    to.end_tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return {};
}

}  // namespace

ecq::result<model_config> parse_model_config(const json& from) {
  ECQ_TRY(which, family_of(from));
  model_config config;
  ECQ_CHECK(read_sizes(from, which, config));
  ECQ_CHECK(read_mixture(from, which, config));
  ECQ_CHECK(read_variant(from, which, config));
  ECQ_CHECK(read_window(from, which, config));
  ECQ_CHECK(read_special_tokens(from, config));
  const bool is_mixtral = which == family::mixtral;
  ECQ_TRY(epsilon, positive_member(from, "rms_norm_eps", is_mixtral ? 1e-5 : config.norm_epsilon));
  ECQ_TRY(rotary, parse_rotary_embedding(from, is_mixtral ? 1e6 : config.rotary.theta));
  ECQ_TRY(tied, flag_member(from, "tie_word_embeddings"));
  config.norm_epsilon = epsilon;
  config.rotary = rotary;
  config.tied = tied;
  return config;
}

ecq::result<model_config> read_model_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  ECQ_TRY(parsed, read_json_object(path));
  auto config = parse_model_config(parsed);
  if (!config) return std::move(config).error().within("'", path.string(), "'");
  const auto beside = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) return config;
  ECQ_TRY(generation, read_json_object(beside));
  config->begin_token.reset();
  config->end_tokens.clear();
  auto read = read_special_tokens(generation, *config);
  if (!read) return std::move(read).error().within("'", beside.string(), "'");
  return config;
}

}  // namespace llama
