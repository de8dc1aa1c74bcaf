#pragma once
/// \file
/// The forward pass of a Llama-like decoder: RMSNorm, rotary embeddings, grouped-query attention, SwiGLU.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "mixture.hpp"

namespace llama {

class kv_cache;
class model;
struct model_config;
class thread_pool;

/// Computes tokens with the weights of a model. Activations are FP32. What it computes for a token is a function of the
/// token and those before it alone: neither the number of threads, nor how tokens are grouped into passes, nor whether
/// weights are decoded once or again changes a bit. With weights that are multiplied as they lie (coded_layer),
/// grouping changes the order of sums.
class forward_pass {
 public:
  /// The most tokens that one pass takes.
  static constexpr std::size_t most_tokens = 1024;

  /// `weights` and `pool` must outlive the pass.
  forward_pass(const model& weights, thread_pool& pool);

  /// Sees the products of down projections, of each expert those of the tokens that choose it: their input (tokens x
  /// intermediate, what SwiGLU gives) and their output (tokens x hidden, before it is added to the states), valid
  /// during the call.
  using down_observer = std::function<void(std::size_t layer, std::size_t expert, ecq::matrix_view<const float> in,
                                           ecq::matrix_view<const float> out)>;

  /// Has run() call `observer` in each layer from now on.
  void observe_down(down_observer observer) { observe_down_ = std::move(observer); }

  /// Has run() multiply by `other`, which outlives the pass, in the place of matrix `index` of a layer from now on;
  /// with null, by the model's own. One matrix at a time, in the modes dense and block.
  void replace(std::size_t layer, std::size_t index, const linear_layer* other) noexcept;

  /// Computes `tokens`, which follow those in the cache, and adds their keys and values to it. Returns their final
  /// states after the last norm (tokens x hidden), valid until the next call. Errors: ecq::errc::invalid_argument for
  /// no tokens or more than most_tokens, for tokens beyond the vocabulary or the context; those of layer_source::layer,
  /// after which the cache is as before.
  ecq::result<ecq::matrix_view<const float>> run(std::span<const std::uint32_t> tokens, kv_cache& cache);

  /// The logits (rows of `states` x vocabulary) of final states that run() has returned, valid until the next call.
  ecq::result<ecq::matrix_view<const float>> logits(ecq::matrix_view<const float> states);

  // The steps of run(), for whoever has to see what matrices are multiplied with: resume() begins, and each layer takes
  // the others in their order, gate() and add_feed_forward() without experts, those behind them with experts. What they
  // return is valid until the next step.

  /// Takes up the states (tokens x hidden) that the tokens of a text, from its beginning on, have before a layer. Its
  /// other layers leave the cache, which becomes empty, alone. Precondition: at most most_tokens, and the context.
  void resume(ecq::matrix_view<const float> states, kv_cache& cache);

  /// The states (tokens x hidden).
  ecq::matrix_view<const float> states() const noexcept;

  /// What queries, keys and values are made of (tokens x hidden).
  ecq::matrix_view<const float> attention_input(std::size_t layer);

  /// What heads make of the values of all tokens (tokens x query width). Errors: those of linear_layer::multiply, as in
  /// the steps behind it.
  ecq::result<ecq::matrix_view<const float>> attention(std::size_t layer, const layer_matrices& matrices,
                                                       kv_cache& cache);

  /// Multiplies what attention() returned, and adds it to the states.
  ecq::result<void> add_attention(std::size_t layer, const layer_matrices& matrices);

  /// What gate and up are multiplied with (tokens x hidden).
  ecq::matrix_view<const float> feed_forward_input(std::size_t layer);

  /// What SwiGLU makes of them (tokens x intermediate).
  ecq::result<ecq::matrix_view<const float>> gate(std::size_t layer, const layer_matrices& matrices);

  /// Multiplies what gate() returned, and adds it to the states.
  ecq::result<void> add_feed_forward(std::size_t layer, const layer_matrices& matrices);

  /// Has each token choose experts by feed_forward_input(); returns the logits (tokens x experts).
  ecq::result<ecq::matrix_view<const float>> choose(std::size_t layer);

  /// The tokens that have chosen an expert, in their order.
  std::vector<std::size_t> takers(std::size_t expert) const;

  /// feed_forward_input() of some tokens, which are numbers of the pass (tokens x hidden).
  ecq::matrix_view<const float> input_of(std::span<const std::size_t> tokens);

  /// What SwiGLU of an expert makes of `in`, at most as many tokens as the pass has (tokens x intermediate).
  ecq::result<ecq::matrix_view<const float>> gate(std::size_t layer, const layer_matrices& matrices, std::size_t expert,
                                                  ecq::matrix_view<const float> in);

  /// Sends each token through the experts that it chooses by feed_forward_input(), and adds the sum of what they
  /// return, in the order of the experts, to the states.
  ecq::result<void> add_experts(std::size_t layer, const layer_matrices& matrices);

 private:
  ecq::result<void> check(std::span<const std::uint32_t> tokens, const kv_cache& cache) const;

  /// The widths of a token's query, key and value together.
  std::size_t attention_width() const noexcept;

  /// Makes room for tokens that follow those in the cache.
  void begin(std::size_t count, kv_cache& cache);

  /// The cosines and sines of the positions from `first` on: for each position, of every pair of a head.
  void rotations(std::size_t first, std::size_t count);

  /// Rotates the heads of a token in place. Pairs are elements of the lower and the upper half of a head.
  void rotate(float* heads, std::size_t count, std::size_t token) const noexcept;

  /// Rows of the products of gate and up (count x 2 intermediate).
  ecq::matrix_view<float> gate_and_up(std::size_t first, std::size_t count) noexcept;

  /// What SwiGLU has made of them (count x intermediate).
  ecq::matrix_view<const float> down_input(std::size_t first, std::size_t count) const noexcept;

  /// Has SwiGLU make what it makes of the first `count` rows.
  void apply_swiglu(std::size_t count);

  /// normed_ = RMSNorm of states_.
  ecq::matrix_view<const float> normalize(const std::vector<float>& weight);

  /// to = RMSNorm of from, which may be the same, as wide as `weight`.
  void normalize(const float* from, const std::vector<float>& weight, float* to) const noexcept;

  /// Normalises each head of a token in place; does nothing without weights.
  void normalize_heads(float* heads, std::size_t count, const std::vector<float>& weight) const noexcept;

  /// The products of activations and the matrices from `index` on that share an input, with their biases: side by side,
  /// in the order of the matrices.
  ecq::result<void> multiply(std::size_t layer, const layer_matrices& matrices, std::size_t index,
                             ecq::matrix_view<const float> in, ecq::matrix_view<float> out);

  /// What a head of a token makes of the values of its window. `scores` has room for all positions up to its own.
  void mix_values(std::size_t layer, kv_cache& cache, std::size_t first, std::size_t token, std::size_t head,
                  float* scores) noexcept;

  /// Appends these products, without the biases.
  static void add_products(const layer_matrices& matrices, std::size_t index, ecq::matrix_view<const float> in,
                           ecq::matrix_view<float> out, std::vector<layer_product>& products);

  /// Rows that an expert gets, one for each token that has chosen it.
  struct expert_rows {
    std::size_t expert;
    std::size_t first;
    std::size_t count;
  };

  /// Sends tokens through some experts, and adds what they return. `tokens` are those of all rows.
  ecq::result<void> add_experts(std::size_t layer, const layer_matrices& matrices,
                                std::span<const expert_rows> together, std::span<const std::size_t> tokens);

  void add_delta() noexcept;

  const model& model_;
  const model_config& config_;
  thread_pool& pool_;
  bool vectors_;
  std::size_t count_ = 0;                       ///< tokens of the pass
  std::vector<float> states_, normed_, delta_;  ///< tokens x hidden
  std::vector<float> attention_;                ///< tokens x attention_width: query, key, value
  std::vector<float> mixed_;                    ///< tokens x query_width
  std::vector<float> gated_;                    ///< tokens, or rows of experts, x 2 intermediate: gate, up
  std::vector<float> cosines_, sines_;          ///< tokens x head_width / 2
  std::vector<float> scores_, logits_;
  std::vector<float> routes_;          ///< tokens x experts: logits
  std::vector<expert_share> chosen_;   ///< tokens x experts of a token
  std::vector<float> taken_, output_;  ///< rows of some experts x hidden: what they get, what they return
  down_observer observe_down_;
  std::size_t replaced_layer_ = 0;
  std::size_t replaced_ = 0;
  const linear_layer* replacement_ = nullptr;
};

}  // namespace llama
