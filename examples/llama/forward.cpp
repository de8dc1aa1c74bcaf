// The steps of a layer, each on all threads.

#include "forward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dot.hpp"
#include "dot_tile.hpp"
#include "ecq/format/bf16.hpp"
#include "kv_cache.hpp"
#include "linear_layer.hpp"
#include "model.hpp"
#include "product.hpp"
#include "thread_pool.hpp"

namespace llama {

forward_pass::forward_pass(const model& weights, thread_pool& pool)
    : model_(weights), config_(weights.config()), pool_(pool), vectors_(has_vectors()) {}

void forward_pass::replace(std::size_t layer, std::size_t index, const linear_layer* other) noexcept {
  replaced_layer_ = layer;
  replaced_ = index;
  replacement_ = other;
}

ecq::result<ecq::matrix_view<const float>> forward_pass::run(std::span<const std::uint32_t> tokens, kv_cache& cache) {
  ECQ_CHECK(check(tokens, cache));
  const std::size_t count = tokens.size();
  begin(count, cache);
  for (std::size_t token = 0; token < count; ++token) {
    const ecq::bf16* const row = &model_.embedding()(tokens[token], 0);
    std::transform(row, row + config_.hidden, &states_[token * config_.hidden],
                   [](ecq::bf16 weight) { return value_of(weight); });
  }
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    ECQ_TRY(matrices, model_.layers().layer(layer));
    if (replacement_ != nullptr && layer == replaced_layer_) {
      matrices[replaced_] = replacement_;
    }
    attention_input(layer);
    ECQ_CHECK(attention(layer, matrices, cache));
    ECQ_CHECK(add_attention(layer, matrices));
    feed_forward_input(layer);
    if (config_.mixture.experts != 0) {
      ECQ_CHECK(add_experts(layer, matrices));
      continue;
    }
    ECQ_CHECK(gate(layer, matrices));
    ECQ_CHECK(add_feed_forward(layer, matrices));
  }
  cache.advance(count);
  return normalize(model_.final_norm());
}

ecq::result<ecq::matrix_view<const float>> forward_pass::logits(ecq::matrix_view<const float> states) {
  logits_.resize(states.rows() * config_.vocabulary);
  const ecq::matrix_view<float> out(logits_.data(), states.rows(), config_.vocabulary);
  ECQ_CHECK(model_.head().multiply(pool_, states, out));
  return ecq::matrix_view<const float>(out);
}

void forward_pass::resume(ecq::matrix_view<const float> states, kv_cache& cache) {
  cache.clear();
  begin(states.rows(), cache);
  for (std::size_t token = 0; token < count_; ++token) {
    std::copy_n(&states(token, 0), config_.hidden, &states_[token * config_.hidden]);
  }
}

ecq::matrix_view<const float> forward_pass::states() const noexcept { return {states_.data(), count_, config_.hidden}; }

ecq::matrix_view<const float> forward_pass::attention_input(std::size_t layer) {
  return normalize(model_.vectors(layer).attention_norm);
}

ecq::result<ecq::matrix_view<const float>> forward_pass::attention(std::size_t layer, const layer_matrices& matrices,
                                                                   kv_cache& cache) {
  const std::size_t count = count_, query_width = config_.query_width(), key_width = config_.key_width();
  const std::size_t first = cache.length();
  ECQ_CHECK(multiply(layer, matrices, matrix_index(projection::query), {normed_.data(), count, config_.hidden},
                     {attention_.data(), count, attention_width()}));
  for (std::size_t token = 0; token < count; ++token) {
    float* const query = &attention_[token * attention_width()];
    float* const key = cache.key(layer, first + token);
    std::copy_n(query + query_width, key_width, key);
    std::copy_n(query + query_width + key_width, key_width, cache.value(layer, first + token));
    normalize_heads(query, config_.heads, model_.vectors(layer).query_norm);
    normalize_heads(key, config_.key_heads, model_.vectors(layer).key_norm);
    rotate(query, config_.heads, token);
    rotate(key, config_.key_heads, token);
  }
  scores_.resize(pool_.size() * (first + count));
  const std::size_t work = 2 * count * (first + count) * query_width;
  pool_.run(count * config_.heads, work, [&](std::size_t index, std::size_t worker) {
    mix_values(layer, cache, first, index / config_.heads, index % config_.heads, &scores_[worker * (first + count)]);
  });
  return ecq::matrix_view<const float>(mixed_.data(), count, query_width);
}

ecq::result<void> forward_pass::add_attention(std::size_t layer, const layer_matrices& matrices) {
  ECQ_CHECK(multiply(layer, matrices, matrix_index(projection::output), {mixed_.data(), count_, config_.query_width()},
                     {delta_.data(), count_, config_.hidden}));
  add_delta();
  return {};
}

ecq::matrix_view<const float> forward_pass::feed_forward_input(std::size_t layer) {
  return normalize(model_.vectors(layer).feed_forward_norm);
}

ecq::result<ecq::matrix_view<const float>> forward_pass::gate(std::size_t layer, const layer_matrices& matrices) {
  return gate(layer, matrices, 0, {normed_.data(), count_, config_.hidden});
}

ecq::result<ecq::matrix_view<const float>> forward_pass::gate(std::size_t layer, const layer_matrices& matrices,
                                                              std::size_t expert, ecq::matrix_view<const float> in) {
  ECQ_CHECK(multiply(layer, matrices, matrix_index(projection::gate, expert), in, gate_and_up(0, in.rows())));
  apply_swiglu(in.rows());
  return down_input(0, in.rows());
}

ecq::result<void> forward_pass::add_feed_forward(std::size_t layer, const layer_matrices& matrices) {
  const ecq::matrix_view<float> out(delta_.data(), count_, config_.hidden);
  ECQ_CHECK(multiply(layer, matrices, matrix_index(projection::down), down_input(0, count_), out));
  if (observe_down_) observe_down_(layer, 0, down_input(0, count_), out);
  add_delta();
  return {};
}

ecq::result<ecq::matrix_view<const float>> forward_pass::choose(std::size_t layer) {
  const expert_mixture& mixture = config_.mixture;
  routes_.resize(count_ * mixture.experts);
  const ecq::matrix_view<float> routes(routes_.data(), count_, mixture.experts);
  ECQ_CHECK(model_.router(layer).multiply(pool_, {normed_.data(), count_, config_.hidden}, routes));
  chosen_.resize(count_ * mixture.chosen);
  for (std::size_t token = 0; token < count_; ++token) {
    choose_experts(mixture, std::span(routes_).subspan(token * mixture.experts, mixture.experts),
                   std::span(chosen_).subspan(token * mixture.chosen, mixture.chosen));
  }
  return ecq::matrix_view<const float>(routes);
}

std::vector<std::size_t> forward_pass::takers(std::size_t expert) const {
  std::vector<std::size_t> tokens;
  for (std::size_t at = 0; at < chosen_.size(); ++at) {
    if (chosen_[at].expert == expert) tokens.push_back(at / config_.mixture.chosen);
  }
  return tokens;
}

ecq::matrix_view<const float> forward_pass::input_of(std::span<const std::size_t> tokens) {
  const std::size_t hidden = config_.hidden;
  taken_.resize(tokens.size() * hidden);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    std::copy_n(&normed_[tokens[row] * hidden], hidden, &taken_[row * hidden]);
  }
  return {taken_.data(), tokens.size(), hidden};
}

ecq::result<void> forward_pass::add_experts(std::size_t layer, const layer_matrices& matrices) {
  constexpr std::size_t few_rows = 64;  // which need little memory
  const std::size_t most_rows = (std::max)(count_, few_rows);
  ECQ_CHECK(choose(layer));
  std::fill(delta_.begin(), delta_.end(), 0.0F);
  std::vector<expert_rows> together;
  std::vector<std::size_t> rows;
  const auto add_together = [&] {
    auto added = add_experts(layer, matrices, together, rows);
    together.clear();
    rows.clear();
    return added;
  };
  for (std::size_t expert = 0; expert < config_.mixture.experts; ++expert) {
    const std::vector<std::size_t> tokens = takers(expert);
    if (tokens.empty()) continue;
    if (rows.size() + tokens.size() > most_rows) ECQ_CHECK(add_together());
    together.push_back({expert, rows.size(), tokens.size()});
    rows.insert(rows.end(), tokens.begin(), tokens.end());
  }
  ECQ_CHECK(add_together());
  add_delta();
  return {};
}

ecq::result<void> forward_pass::add_experts(std::size_t layer, const layer_matrices& matrices,
                                            std::span<const expert_rows> together,
                                            std::span<const std::size_t> tokens) {
  const std::size_t hidden = config_.hidden;
  const ecq::matrix_view<const float> inputs = input_of(tokens);
  gated_.resize((std::max)(gated_.size(), tokens.size() * 2 * config_.intermediate));
  output_.resize(tokens.size() * hidden);
  const auto output = [&](const expert_rows& one) {
    return ecq::matrix_view<float>(&output_[one.first * hidden], one.count, hidden);
  };
  std::vector<layer_product> gates, downs;
  for (const expert_rows& one : together) {
    add_products(matrices, matrix_index(projection::gate, one.expert), {&inputs(one.first, 0), one.count, hidden},
                 gate_and_up(one.first, one.count), gates);
    add_products(matrices, matrix_index(projection::down, one.expert), down_input(one.first, one.count), output(one),
                 downs);
  }
  ECQ_CHECK(multiply_together(pool_, gates));
  apply_swiglu(tokens.size());
  ECQ_CHECK(multiply_together(pool_, downs));
  for (const expert_rows& one : together) {
    if (observe_down_) observe_down_(layer, one.expert, down_input(one.first, one.count), output(one));
    std::size_t row = one.first;
    for (const expert_share& chosen : chosen_) {
      if (chosen.expert != one.expert) continue;
      float* const to = &delta_[tokens[row] * hidden];
      const float* const from = &output_[row * hidden];
      for (std::size_t column = 0; column < hidden; ++column) to[column] += chosen.share * from[column];
      ++row;
    }
  }
  return {};
}

ecq::result<void> forward_pass::check(std::span<const std::uint32_t> tokens, const kv_cache& cache) const {
  if (tokens.empty() || tokens.size() > most_tokens) {
    return ecq::error(ecq::errc::invalid_argument, tokens.size(), " tokens in a pass, not 1 to ", most_tokens);
  }
  if (tokens.size() > cache.positions() - cache.length()) {
    return ecq::error(ecq::errc::invalid_argument, cache.length() + tokens.size(), " tokens, but the context has only ",
                      cache.positions());
  }
  for (const std::uint32_t token : tokens) {
    if (token < config_.vocabulary) continue;
    return ecq::error(ecq::errc::invalid_argument, "token ", token, " is outside the vocabulary of ",
                      config_.vocabulary);
  }
  return {};
}

std::size_t forward_pass::attention_width() const noexcept { return config_.query_width() + 2 * config_.key_width(); }

void forward_pass::begin(std::size_t count, kv_cache& cache) {
  count_ = count;
  cache.extend(count);
  rotations(cache.length(), count);
  states_.resize(count * config_.hidden);
  normed_.resize(count * config_.hidden);
  delta_.resize(count * config_.hidden);
  attention_.resize(count * attention_width());
  mixed_.resize(count * config_.query_width());
  gated_.resize(count * 2 * config_.intermediate);
}

void forward_pass::rotations(std::size_t first, std::size_t count) {
  const std::size_t pairs = config_.head_width / 2;
  cosines_.resize(count * pairs);
  sines_.resize(count * pairs);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const double frequency = config_.rotary.frequency(pair, config_.head_width);
    for (std::size_t token = 0; token < count; ++token) {
      const double angle = static_cast<double>(first + token) * frequency;
      cosines_[token * pairs + pair] = static_cast<float>(std::cos(angle));
      sines_[token * pairs + pair] = static_cast<float>(std::sin(angle));
    }
  }
}

void forward_pass::rotate(float* heads, std::size_t count, std::size_t token) const noexcept {
  const std::size_t pairs = config_.head_width / 2;
  const float* const cosine = &cosines_[token * pairs];
  const float* const sine = &sines_[token * pairs];
  for (float* head = heads; head != heads + count * config_.head_width; head += config_.head_width) {
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const float low = head[pair];
      const float high = head[pair + pairs];
      head[pair] = low * cosine[pair] - high * sine[pair];
      head[pair + pairs] = high * cosine[pair] + low * sine[pair];
    }
  }
}

ecq::matrix_view<float> forward_pass::gate_and_up(std::size_t first, std::size_t count) noexcept {
  const std::size_t width = 2 * config_.intermediate;
  return {&gated_[first * width], count, width};
}

ecq::matrix_view<const float> forward_pass::down_input(std::size_t first, std::size_t count) const noexcept {
  const std::size_t stride = 2 * config_.intermediate;
  return {&gated_[first * stride], count, config_.intermediate, static_cast<std::ptrdiff_t>(stride)};
}

void forward_pass::apply_swiglu(std::size_t count) {
  constexpr std::size_t work_of_exponential = 16;
  const std::size_t wide = config_.intermediate;
  pool_.run(count, work_of_exponential * count * wide, [&](std::size_t row, std::size_t) {
    float* const gate = &gated_[row * 2 * wide];
    const float* const up = gate + wide;
    for (std::size_t at = 0; at < wide; ++at) gate[at] = gate[at] / (1.0F + std::exp(-gate[at])) * up[at];
  });
}

ecq::matrix_view<const float> forward_pass::normalize(const std::vector<float>& weight) {
  const std::size_t count = count_, width = config_.hidden;
  pool_.run(count, 2 * count * width, [&](std::size_t token, std::size_t) {
    normalize(&states_[token * width], weight, &normed_[token * width]);
  });
  return {normed_.data(), count, width};
}

void forward_pass::normalize(const float* from, const std::vector<float>& weight, float* to) const noexcept {
  const std::size_t width = weight.size();
  float square = 0;
  detail::dot_tile<1, 1>(vectors_, from, width, from, width, width, &square);
  const float mean = square / static_cast<float>(width);
  const float scale = 1.0F / std::sqrt(mean + static_cast<float>(config_.norm_epsilon));
  for (std::size_t at = 0; at < width; ++at) to[at] = from[at] * scale * weight[at];
}

void forward_pass::normalize_heads(float* heads, std::size_t count, const std::vector<float>& weight) const noexcept {
  for (std::size_t head = 0; head < count && !weight.empty(); ++head) {
    normalize(heads + head * weight.size(), weight, heads + head * weight.size());
  }
}

ecq::result<void> forward_pass::multiply(std::size_t layer, const layer_matrices& matrices, std::size_t index,
                                         ecq::matrix_view<const float> in, ecq::matrix_view<float> out) {
  std::vector<layer_product> products;
  add_products(matrices, index, in, out, products);
  ECQ_CHECK(multiply_together(pool_, products));
  const auto which = static_cast<std::size_t>(projection_at(index));  // experts have no biases
  const std::vector<float>& bias = model_.vectors(layer).biases[which];
  for (std::size_t token = 0; token < out.rows(); ++token) {
    for (std::size_t at = 0; at < bias.size(); ++at) out(token, at) += bias[at];
  }
  return {};
}

void forward_pass::add_products(const layer_matrices& matrices, std::size_t index, ecq::matrix_view<const float> in,
                                ecq::matrix_view<float> out, std::vector<layer_product>& products) {
  std::size_t column = 0;
  do {
    const linear_layer* const matrix = matrices[index];
    if (matrix == nullptr) continue;
    products.push_back({matrix, in, {&out(0, column), out.rows(), matrix->rows(), out.row_stride()}});
    column += matrix->rows();
  } while (++index < matrices.size() && shares_input(index));
}

void forward_pass::mix_values(std::size_t layer, kv_cache& cache, std::size_t first, std::size_t token,
                              std::size_t head, float* scores) noexcept {
  const std::size_t width = config_.head_width;
  const float* const query = &attention_[token * attention_width() + head * width];
  const std::size_t shared = head / (config_.heads / config_.key_heads) * width;
  const std::size_t length = first + token + 1, begin = length - (std::min)(length, config_.window);
  const float scale = 1.0F / std::sqrt(static_cast<float>(width));
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t at = begin; at < length; ++at) {
    const float* const key = cache.key(layer, at) + shared;
    detail::dot_tile<1, 1>(vectors_, key, width, query, width, width, &scores[at]);
    scores[at] *= scale;
    highest = (std::max)(highest, scores[at]);
  }
  float sum = 0;
  for (std::size_t at = begin; at < length; ++at) {
    scores[at] = std::exp(scores[at] - highest);
    sum += scores[at];
  }
  float* const out = &mixed_[token * config_.query_width() + head * width];
  std::fill(out, out + width, 0.0F);
  for (std::size_t at = begin; at < length; ++at) {
    const float share = scores[at] / sum;
    const float* const value = cache.value(layer, at) + shared;
    for (std::size_t column = 0; column < width; ++column) out[column] += share * value[column];
  }
}

void forward_pass::add_delta() noexcept {
  for (std::size_t at = 0; at < states_.size(); ++at) states_[at] += delta_[at];
}

}  // namespace llama
