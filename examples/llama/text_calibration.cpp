// Runs two models through the same texts, one half of a layer after another.

#include "text_calibration.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "dot.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "model.hpp"
#include "thread_pool.hpp"

namespace llama {

text_calibration::text_calibration(const model& original, thread_pool& pool,
                                   std::vector<std::vector<std::uint32_t>> texts)
    : original_(original),
      pool_(pool),
      texts_(std::move(texts)),
      cache_(original.config()),
      weights_(original.config().mixture.matrices()),
      layers_(original.config().mixture.matrices()) {}

ecq::result<void> text_calibration::restart() {
  layer_ = 0;
  stage_ = behind_layer;
  started_ = false;
  for (side& one : sides_) {
    one.states.clear();
    for (const auto& text : texts_) {
      for (const std::uint32_t token : text) {
        for (std::size_t column = 0; column < hidden(); ++column) {
          one.states.push_back(value_of(original_.embedding()(token, column)));
        }
      }
    }
  }
  return {};
}

ecq::result<std::vector<std::string>> text_calibration::next() {
  if (stage_ == behind_layer) {
    const std::size_t layers = original_.config().layers;
    if (std::exchange(started_, true) && layer_ < layers) ++layer_;
    if (layer_ == layers) return std::vector<std::string>{};
    ECQ_TRY(matrices, original_.layers().layer(layer_));
    for (side& one : sides_) one.matrices = matrices;
    stage_ = 0;
  } else {
    // Computes what follows a matrix, now that it is quantised.
    const bool ends = stage_ + 1 == stages();
    if (stage_ + 1 == first_of_experts || ends) ECQ_CHECK(add_to_states());
    if (ends) {
      stage_ = behind_layer;
      return next();
    }
    ++stage_;
    if (stage_ == first_of_experts) ECQ_CHECK(find_takers());
  }
  std::vector<std::string> names;
  for (std::size_t index = matrices().first; index < matrices().end; ++index) {
    names.push_back(tensor_name(original_.config().mixture, layer_, index));
  }
  return names;
}

template <class Body>
ecq::result<void> text_calibration::each_text(const Body& body) {
  std::size_t begin = 0;
  for (const auto& text : texts_) {
    ECQ_CHECK(body(begin, text.size()));
    begin += text.size();
  }
  return {};
}

ecq::result<void> text_calibration::find_takers() {
  const model_config& config = original_.config();
  const std::size_t experts = config.mixture.experts;
  takers_.assign(experts, {});
  if (experts == 0) return {};
  std::vector<float> shares;  // tokens x experts
  ECQ_CHECK(each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
    forward_pass& pass = sides_[coded].pass;
    pass.resume({&sides_[coded].states[begin * hidden()], count, hidden()}, cache_);
    pass.feed_forward_input(layer_);
    ECQ_TRY(logits, pass.choose(layer_));
    for (std::size_t token = 0; token < count; ++token) {
      const std::vector<float> of_token = shares_of({&logits(token, 0), experts});
      shares.insert(shares.end(), of_token.begin(), of_token.end());
    }
    for (std::size_t each = 0; each < experts; ++each) {
      for (const std::size_t token : pass.takers(each)) takers_[each].push_back(begin + token);
    }
    return {};
  }));
  const std::size_t tokens = shares.size() / experts;
  const std::size_t least = (std::min)((std::max)(config.hidden, config.intermediate), tokens);
  for (std::size_t each = 0; each < experts; ++each) {
    std::vector<std::size_t>& of_expert = takers_[each];
    if (of_expert.size() >= least) continue;
    std::vector<std::pair<float, std::size_t>> others;  // the closest first, and of equal ones the first
    for (std::size_t token = 0; token < tokens; ++token) {
      if (std::ranges::binary_search(of_expert, token)) continue;
      const float share = shares[token * experts + each];
      others.emplace_back(share > 0 ? -share : 0.0F, token);  // NaN last
    }
    std::ranges::sort(others);
    others.resize(least - of_expert.size());
    for (const auto& [share, token] : others) of_expert.push_back(token);
    std::ranges::sort(of_expert);
  }
  return {};
}

ecq::result<ecq::input_moments> text_calibration::moments() {
  ECQ_TRY(sums, ecq::moment_sums::create(width(), true));
  ECQ_CHECK(each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
    for (side& one : sides_) {
      ECQ_TRY(input, input_of(one, begin, count));
      one.input = input;
    }
    if (sides_[coded].input.rows() == 0) return {};  // the expert learns from no token of this text
    return sums.add(pool_.backend(), sides_[coded].input, sides_[plain].input);
  }));
  return std::move(sums).finish(pool_.backend());
}

ecq::result<void> text_calibration::replace(const std::string& name, ecq::matrix_view<const float> weights) {
  for (std::size_t index = matrices().first; index < matrices().end; ++index) {
    if (name != tensor_name(original_.config().mixture, layer_, index)) continue;
    std::vector<ecq::bf16>& kept = weights_[index];
    kept.resize(weights.size());
    for (std::size_t row = 0; row < weights.rows(); ++row) {
      for (std::size_t column = 0; column < weights.columns(); ++column) {
        kept[row * weights.columns() + column] = ecq::nearest_finite<ecq::bf16>(weights(row, column));
      }
    }
    layers_[index].set({kept.data(), weights.rows(), weights.columns()});
    sides_[coded].matrices[index] = &layers_[index];
  }
  return {};
}

std::size_t text_calibration::hidden() const noexcept { return original_.config().hidden; }

std::size_t text_calibration::stages() const noexcept {
  return first_of_experts + 2 * (std::max)(original_.config().mixture.experts, std::size_t{1});
}

text_calibration::group text_calibration::matrices() const noexcept {
  if (stage_ == 0) return {matrix_index(projection::query), matrix_index(projection::output)};
  if (stage_ == 1) return {matrix_index(projection::output), matrix_index(projection::gate)};
  const std::size_t gate = matrix_index(projection::gate, expert()), down = matrix_index(projection::down, expert());
  return is_down() ? group{down, down + 1} : group{gate, down};
}

std::size_t text_calibration::width() const noexcept {
  const model_config& config = original_.config();
  return stage_ == 1 ? config.query_width() : is_down() ? config.intermediate : config.hidden;
}

ecq::result<ecq::matrix_view<const float>> text_calibration::input_of(side& one, std::size_t begin, std::size_t count) {
  one.pass.resume({&one.states[begin * hidden()], count, hidden()}, cache_);
  if (stage_ >= first_of_experts) {
    auto input = one.pass.feed_forward_input(layer_);
    if (!takers_.empty()) {
      const std::vector<std::size_t>& all = takers_[expert()];
      std::vector<std::size_t> own(std::ranges::lower_bound(all, begin), std::ranges::lower_bound(all, begin + count));
      for (std::size_t& token : own) token -= begin;
      input = one.pass.input_of(own);
    }
    if (!is_down() || input.rows() == 0) return input;
    return one.pass.gate(layer_, one.matrices, expert(), input);
  }
  const auto input = one.pass.attention_input(layer_);
  if (stage_ == 0) return input;
  return one.pass.attention(layer_, one.matrices, cache_);
}

ecq::result<void> text_calibration::add_to_states() {
  return each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
    for (side& one : sides_) {
      ECQ_CHECK(input_of(one, begin, count));
      ECQ_CHECK(stage_ == 1       ? one.pass.add_attention(layer_, one.matrices)
                : takers_.empty() ? one.pass.add_feed_forward(layer_, one.matrices)
                                  : one.pass.add_experts(layer_, one.matrices));
      const auto states = one.pass.states();
      std::copy_n(states.data(), states.size(), &one.states[begin * hidden()]);
    }
    return {};
  });
}

}  // namespace llama
