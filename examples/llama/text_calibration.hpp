#pragma once
/// \file
/// Forward pass over texts, from which error feedback learns the input of each matrix.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/calibration_pass.hpp"
#include "ecq/format/bf16.hpp"
#include "forward.hpp"
#include "kv_cache.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"

namespace llama {

class model;
class thread_pool;

/// Takes all texts through one layer after another, with the weights of the original model and with those that were
/// quantised so far. Memory holds the states of all tokens twice, and the quantised weights of a layer. Each layer is
/// computed about twice: up to the input of a matrix, and again once the matrix is quantised. In a mixture, each expert
/// learns from the tokens that choose it in the quantised model. If these are fewer than the columns of its matrices,
/// it also learns from the tokens that came closest to choosing it.
class text_calibration final : public ecq::calibration_pass {
 public:
  /// `original`, opened in mode dense, and `pool` must outlive the calibration. Precondition: texts of 1 to
  /// forward_pass::most_tokens tokens, within context and vocabulary.
  text_calibration(const model& original, thread_pool& pool, std::vector<std::vector<std::uint32_t>> texts);

  ecq::result<void> restart() override;

  ecq::result<std::vector<std::string>> next() override;

  ecq::result<ecq::input_moments> moments() override;

  ecq::result<void> replace(const std::string& name, ecq::matrix_view<const float> weights) override;

 private:
  // A layer has a stage for each input that matrices share, in the order of computation: that of query, key and value;
  // that of output; then, for each expert, that of gate and up and that of down.
  static constexpr std::size_t first_of_experts = 2;
  static constexpr std::size_t behind_layer = ~std::size_t{0};
  static constexpr std::size_t plain = 0, coded = 1;

  /// Indices of matrices of a layer: first, ..., end - 1.
  struct group {
    std::size_t first, end;
  };

  /// One of the two models.
  struct side {
    forward_pass pass;
    std::vector<float> states{};  ///< of all tokens x hidden, before the half of the layer
    layer_matrices matrices{};
    ecq::matrix_view<const float> input{};
  };

  std::size_t hidden() const noexcept;
  std::size_t stages() const noexcept;
  std::size_t expert() const noexcept { return (stage_ - first_of_experts) / 2; }
  bool is_down() const noexcept { return stage_ >= first_of_experts && stage_ % 2 != 0; }

  /// Returns the matrices of the stage.
  group matrices() const noexcept;

  /// Returns the width of the stage's input.
  std::size_t width() const noexcept;

  /// Calls `body(first token, count)` for each text.
  template <class Body>
  ecq::result<void> each_text(const Body& body);

  /// Finds the tokens that each expert of the layer learns from.
  ecq::result<void> find_takers();

  /// Returns the input of the matrices of the stage, for the tokens of a text; of an expert, for those of them that it
  /// learns from.
  ecq::result<ecq::matrix_view<const float>> input_of(side& one, std::size_t begin, std::size_t count);

  /// Adds the output of a half of a layer to the states.
  ecq::result<void> add_to_states();

  const model& original_;
  thread_pool& pool_;
  std::vector<std::vector<std::uint32_t>> texts_;
  kv_cache cache_;
  std::array<side, 2> sides_{side{forward_pass(original_, pool_)}, side{forward_pass(original_, pool_)}};
  std::vector<std::vector<ecq::bf16>> weights_;  ///< quantised weights of the layer, by matrix
  std::vector<dense_layer> layers_;
  std::vector<std::vector<std::size_t>> takers_;  ///< by expert: numbers among the tokens of all texts, ascending
  std::size_t layer_ = 0;
  std::size_t stage_ = behind_layer;
  bool started_ = false;
};

}  // namespace llama
