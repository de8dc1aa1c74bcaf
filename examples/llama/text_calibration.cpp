// Two models through the same texts, one half of a layer after another.

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
    : original_(original), pool_(pool), texts_(std::move(texts)), cache_(original.config()) {}

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
    // What comes behind a matrix, now that it is quantised.
    if (groups[stage_].adds) ECQ_CHECK(add_to_states());
    if (++stage_ == groups.size()) {
      stage_ = behind_layer;
      return next();
    }
  }
  std::vector<std::string> names;
  for (std::size_t index = groups[stage_].first; index <= groups[stage_].last; ++index) {
    names.push_back(tensor_name(layer_, static_cast<projection>(index)));
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

ecq::result<ecq::input_moments> text_calibration::moments() {
  ECQ_TRY(sums, ecq::moment_sums::create(width(), true));
  ECQ_CHECK(each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
    for (side& one : sides_) {
      ECQ_TRY(input, input_of(one, begin, count));
      one.input = input;
    }
    return sums.add(pool_.backend(), sides_[coded].input, sides_[plain].input);
  }));
  return std::move(sums).finish(pool_.backend());
}

ecq::result<void> text_calibration::replace(const std::string& name, ecq::matrix_view<const float> weights) {
  for (std::size_t index = groups[stage_].first; index <= groups[stage_].last; ++index) {
    if (name != tensor_name(layer_, static_cast<projection>(index))) continue;
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

std::size_t text_calibration::width() const noexcept {
  const model_config& config = original_.config();
  return stage_ == 1 ? config.query_width() : stage_ == 3 ? config.intermediate : config.hidden;
}

ecq::result<ecq::matrix_view<const float>> text_calibration::input_of(side& one, std::size_t begin, std::size_t count) {
  one.pass.resume({&one.states[begin * hidden()], count, hidden()}, cache_);
  if (stage_ >= 2) {
    const auto input = one.pass.feed_forward_input(layer_);
    if (stage_ == 2) return input;
    return one.pass.gate(layer_, one.matrices);
  }
  const auto input = one.pass.attention_input(layer_);
  if (stage_ == 0) return input;
  return one.pass.attention(layer_, one.matrices, cache_);
}

ecq::result<void> text_calibration::add_to_states() {
  return each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
    for (side& one : sides_) {
      ECQ_CHECK(input_of(one, begin, count));
      ECQ_CHECK(stage_ == 1 ? one.pass.add_attention(layer_, one.matrices)
                            : one.pass.add_feed_forward(layer_, one.matrices));
      const auto states = one.pass.states();
      std::copy_n(states.data(), states.size(), &one.states[begin * hidden()]);
    }
    return {};
  });
}

}  // namespace llama
