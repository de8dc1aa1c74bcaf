#pragma once
/// \file
/// The forward pass over texts by which error feedback learns what each matrix is multiplied with.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/calibrated_method.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "forward.hpp"
#include "kv_cache.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "model.hpp"
#include "thread_pool.hpp"

namespace llama {

/// Takes all texts through one layer after another, with the weights of the original model and with those that were
/// quantised so far. Memory: the states of all tokens twice, and the quantised weights of a layer. A layer is computed
/// about twice, as what it does before and behind a matrix is.
class text_calibration final : public ecq::calibration_pass {
 public:
  /// `original`, opened in mode dense, and `pool` must outlive the calibration. Precondition: texts of 1 to
  /// forward_pass::most_tokens tokens, within context and vocabulary.
  text_calibration(const model& original, thread_pool& pool, std::vector<std::vector<std::uint32_t>> texts)
      : original_(original), pool_(pool), texts_(std::move(texts)), cache_(original.config()) {}

  ecq::result<void> restart() override {
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

  ecq::result<std::vector<std::string>> next() override {
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

  ecq::result<ecq::input_moments> moments() override {
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

  ecq::result<void> replace(const std::string& name, ecq::matrix_view<const float> weights) override {
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

 private:
  /// The matrices that share an input, in the order of computation, and whether their product ends a half of the layer.
  struct group {
    std::size_t first, last;
    bool adds;
  };
  static constexpr std::array<group, 4> groups{{{0, 2, false}, {3, 3, true}, {4, 5, false}, {6, 6, true}}};
  static constexpr std::size_t behind_layer = groups.size();
  static constexpr std::size_t plain = 0, coded = 1;

  /// One of the models.
  struct side {
    forward_pass pass;
    std::vector<float> states{};  ///< of all tokens x hidden, before the half of the layer
    forward_pass::layer_matrices matrices{};
    ecq::matrix_view<const float> input{};
  };

  std::size_t hidden() const noexcept { return original_.config().hidden; }

  std::size_t width() const noexcept {
    const model_config& config = original_.config();
    return stage_ == 1 ? config.query_width() : stage_ == 3 ? config.intermediate : config.hidden;
  }

  /// Calls `body(first token, count)` for each text.
  template <class Body>
  ecq::result<void> each_text(const Body& body) {
    std::size_t begin = 0;
    for (const auto& text : texts_) {
      ECQ_CHECK(body(begin, text.size()));
      begin += text.size();
    }
    return {};
  }

  /// What the matrices of the stage are multiplied with, for the tokens of a text.
  ecq::result<ecq::matrix_view<const float>> input_of(side& one, std::size_t begin, std::size_t count) {
    one.pass.resume({&one.states[begin * hidden()], count, hidden()}, cache_);
    if (stage_ >= 2) {
      const auto input = one.pass.feed_forward_input(layer_);
      if (stage_ == 2) return input;
      return one.pass.gate(one.matrices);
    }
    const auto input = one.pass.attention_input(layer_);
    if (stage_ == 0) return input;
    return one.pass.attention(layer_, one.matrices, cache_);
  }

  ecq::result<void> add_to_states() {
    return each_text([&](std::size_t begin, std::size_t count) -> ecq::result<void> {
      for (side& one : sides_) {
        ECQ_CHECK(input_of(one, begin, count));
        ECQ_CHECK(stage_ == 1 ? one.pass.add_attention(one.matrices) : one.pass.add_feed_forward(layer_, one.matrices));
        const auto states = one.pass.states();
        std::copy_n(states.data(), states.size(), &one.states[begin * hidden()]);
      }
      return {};
    });
  }

  const model& original_;
  thread_pool& pool_;
  std::vector<std::vector<std::uint32_t>> texts_;
  kv_cache cache_;
  std::array<side, 2> sides_{side{forward_pass(original_, pool_)}, side{forward_pass(original_, pool_)}};
  by_projection<std::vector<ecq::bf16>> weights_;  ///< quantised ones of the layer
  by_projection<dense_layer> layers_;
  std::size_t layer_ = 0;
  std::size_t stage_ = behind_layer;
  bool started_ = false;
};

}  // namespace llama
