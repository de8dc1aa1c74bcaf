#include "reference_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llama_test {

std::vector<vector> reference_decoder::logits(const std::vector<std::uint32_t>& tokens) const {
  std::vector<vector> states;
  for (const std::uint32_t token : tokens) {
    const auto& embedding = weights("model.embed_tokens.weight");
    states.emplace_back(embedding.begin() + token * tiny_model::hidden,
                        embedding.begin() + (token + 1) * tiny_model::hidden);
  }
  for (std::size_t layer = 0; layer < tiny_model::layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    attend(prefix, states);
    for (vector& state : states) {
      const vector normed = normalized(state, prefix + "post_attention_layernorm.weight");
      const bool mixtral = model_.values.count(prefix + "block_sparse_moe.gate.weight") != 0;
      if (mixtral || model_.values.count(prefix + "mlp.gate.weight") != 0) {
        add(state, mixture(prefix + (mixtral ? "block_sparse_moe." : "mlp."), mixtral, normed));
      } else {
        add(state, network(prefix + "mlp.gate_proj.weight", prefix + "mlp.up_proj.weight",
                           prefix + "mlp.down_proj.weight", normed));
      }
    }
  }
  const bool tied = model_.config.at("tie_word_embeddings") == "true";
  std::vector<vector> all;
  for (const vector& state : states) {
    all.push_back(
        product(tied ? "model.embed_tokens.weight" : "lm_head.weight", normalized(state, "model.norm.weight")));
  }
  return all;
}

vector reference_decoder::network(const std::string& gate_name, const std::string& up_name,
                                  const std::string& down_name, const vector& normed) const {
  vector gate = product(gate_name, normed);
  const vector up = product(up_name, normed);
  for (std::size_t at = 0; at < gate.size(); ++at) gate[at] *= up[at] / (1 + std::exp(-gate[at]));
  return product(down_name, gate);
}

vector reference_decoder::mixture(const std::string& prefix, bool mixtral, const vector& normed) const {
  std::vector<std::pair<double, std::size_t>> experts;
  double sum = 0;
  for (const double logit : product(prefix + "gate.weight", normed)) {
    experts.emplace_back(std::exp(logit), experts.size());
    sum += experts.back().first;
  }
  std::sort(experts.rbegin(), experts.rend());
  experts.resize(tiny_model::chosen);
  const auto normalizes = model_.config.find("norm_topk_prob");
  if (mixtral || (normalizes != model_.config.end() && normalizes->second == "true")) {
    sum = 0;
    for (const auto& [weight, expert] : experts) sum += weight;
  }
  vector all(tiny_model::hidden);
  for (const auto& [weight, expert] : experts) {
    const std::string name = prefix + "experts." + std::to_string(expert) + ".";
    vector out = mixtral
                     ? network(name + "w1.weight", name + "w3.weight", name + "w2.weight", normed)
                     : network(name + "gate_proj.weight", name + "up_proj.weight", name + "down_proj.weight", normed);
    for (double& value : out) value *= weight / sum;
    add(all, out);
  }
  return all;
}

const std::vector<float>& reference_decoder::weights(const std::string& name) const { return model_.values.at(name); }

vector reference_decoder::product(const std::string& name, const vector& in) const {
  const auto& matrix = weights(name);
  vector out(matrix.size() / in.size());
  for (std::size_t row = 0; row < out.size(); ++row) {
    for (std::size_t column = 0; column < in.size(); ++column) {
      out[row] += static_cast<double>(matrix[row * in.size() + column]) * in[column];
    }
  }
  const auto bias = model_.values.find(name.substr(0, name.rfind('.')) + ".bias");
  for (std::size_t row = 0; row < out.size() && bias != model_.values.end(); ++row) {
    out[row] += static_cast<double>(bias->second[row]);
  }
  return out;
}

vector reference_decoder::normalized(const vector& state, const std::string& name) const {
  double square = 0;
  for (const double value : state) square += value * value;
  const double scale = 1 / std::sqrt(square / static_cast<double>(state.size()) + 1e-5);
  vector out = state;
  for (std::size_t at = 0; at < out.size(); ++at) out[at] *= scale * static_cast<double>(weights(name)[at]);
  return out;
}

vector reference_decoder::normalized_heads(const vector& heads, const std::string& name) const {
  if (model_.values.count(name) == 0) return heads;
  vector all;
  for (auto head = heads.begin(); head != heads.end(); head += tiny_model::head_width) {
    const vector normed = normalized(vector(head, head + tiny_model::head_width), name);
    all.insert(all.end(), normed.begin(), normed.end());
  }
  return all;
}

void reference_decoder::add(vector& to, const vector& what) {
  for (std::size_t at = 0; at < to.size(); ++at) to[at] += what[at];
}

vector reference_decoder::rotated_head(const vector& all, std::size_t head, std::size_t position) {
  constexpr std::size_t width = tiny_model::head_width;
  vector out(width);
  for (std::size_t pair = 0; pair < width / 2; ++pair) {
    const double angle =
        static_cast<double>(position) * std::pow(500.0, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
    const double x = all[head * width + pair];
    const double y = all[head * width + pair + width / 2];
    out[pair] = x * std::cos(angle) - y * std::sin(angle);
    out[pair + width / 2] = x * std::sin(angle) + y * std::cos(angle);
  }
  return out;
}

void reference_decoder::attend(const std::string& prefix, std::vector<vector>& states) const {
  constexpr std::size_t width = tiny_model::head_width;
  const auto sliding = model_.config.find("sliding_window");
  const std::size_t window = sliding != model_.config.end() ? std::stoul(sliding->second) : tiny_model::positions;
  std::vector<vector> queries, keys, values;
  for (const vector& state : states) {
    const vector normed = normalized(state, prefix + "input_layernorm.weight");
    queries.push_back(
        normalized_heads(product(prefix + "self_attn.q_proj.weight", normed), prefix + "self_attn.q_norm.weight"));
    keys.push_back(
        normalized_heads(product(prefix + "self_attn.k_proj.weight", normed), prefix + "self_attn.k_norm.weight"));
    values.push_back(product(prefix + "self_attn.v_proj.weight", normed));
  }
  for (std::size_t position = 0; position < states.size(); ++position) {
    vector mixed(tiny_model::heads * width);
    for (std::size_t head = 0; head < tiny_model::heads; ++head) {
      const std::size_t shared = head * tiny_model::key_heads / tiny_model::heads;
      const vector query = rotated_head(queries[position], head, position);
      vector shares;
      double sum = 0;
      const std::size_t begin = position + 1 - std::min(position + 1, window);
      for (std::size_t at = begin; at <= position; ++at) {
        const vector key = rotated_head(keys[at], shared, at);
        double score = 0;
        for (std::size_t column = 0; column < width; ++column) score += query[column] * key[column];
        shares.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
        sum += shares.back();
      }
      for (std::size_t at = begin; at <= position; ++at) {
        for (std::size_t column = 0; column < width; ++column) {
          mixed[head * width + column] += shares[at - begin] / sum * values[at][shared * width + column];
        }
      }
    }
    add(states[position], product(prefix + "self_attn.o_proj.weight", mixed));
  }
}

}  // namespace llama_test
