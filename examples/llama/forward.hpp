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

/// Forward pass of a model, with activations of FP32. The result for a token depends only on that token and those
/// before it: neither the number of threads, nor the grouping of tokens into passes, nor decoding weights once or
/// repeatedly changes a bit. With matrices that are multiplied in coded form (coded_layer), grouping changes the order
/// of sums.
class forward_pass {
 public:
  /// Maximum number of tokens of a pass.
  static constexpr std::size_t most_tokens = 1024;

  /// `weights` and `pool` must outlive the pass.
  forward_pass(const model& weights, thread_pool& pool);

  /// Function that gets the products of down projections, valid during the call: their input (tokens x intermediate,
  /// the output of SwiGLU) and their output (tokens x hidden, before it is added to the states). For an expert, these
  /// are only the tokens that choose it.
  using down_observer = std::function<void(std::size_t layer, std::size_t expert, ecq::matrix_view<const float> in,
                                           ecq::matrix_view<const float> out)>;

  /// Makes run() call `observer` in each layer from now on.
  void observe_down(down_observer observer) { observe_down_ = std::move(observer); }

  /// Makes run() multiply by `other` instead of matrix `index` of a layer from now on; null restores the model's own
  /// matrix. `other` must stay valid as long as it is in use. Only one matrix at a time can be replaced, in the modes
  /// dense and block.
  void replace(std::size_t layer, std::size_t index, const linear_layer* other) noexcept;

  /// Computes `tokens`, which follow those in the cache, and adds their keys and values to it. Returns their final
  /// states after the last norm (tokens x hidden), valid until the next call. Errors: ecq::errc::invalid_argument for
  /// no tokens or more than most_tokens, for tokens beyond the vocabulary or the context; those of layer_source::layer,
  /// after which the cache is as before.
  ecq::result<ecq::matrix_view<const float>> run(std::span<const std::uint32_t> tokens, kv_cache& cache);

  /// Returns the logits (rows of `states` x vocabulary) of final states from run(), valid until the next call.
  ecq::result<ecq::matrix_view<const float>> logits(ecq::matrix_view<const float> states);

  // The steps of run(), for callers that need the inputs of matrices. resume() begins. Each layer then takes the other
  // steps in the order of their declaration: gate() and add_feed_forward() without experts, the functions after them
  // with experts. Results are valid until the next step.

  /// Starts from the states (tokens x hidden) that the tokens of a text, from its beginning on, have before a layer.
  /// Empties the cache, of which each layer uses only its own part. Precondition: at most most_tokens tokens, and no
  /// more than the context.
  void resume(ecq::matrix_view<const float> states, kv_cache& cache);

  /// Returns the states (tokens x hidden).
  ecq::matrix_view<const float> states() const noexcept;

  /// Returns the input of the query, key and value matrices (tokens x hidden).
  ecq::matrix_view<const float> attention_input(std::size_t layer);

  /// Returns the output of the attention heads (tokens x query width). Errors, also of the steps after this one: those
  /// of linear_layer::multiply.
  ecq::result<ecq::matrix_view<const float>> attention(std::size_t layer, const layer_matrices& matrices,
                                                       kv_cache& cache);

  /// Multiplies the result of attention() by the output matrix, and adds the product to the states.
  ecq::result<void> add_attention(std::size_t layer, const layer_matrices& matrices);

  /// Returns the input of the gate and up matrices (tokens x hidden).
  ecq::matrix_view<const float> feed_forward_input(std::size_t layer);

  /// Returns the output of SwiGLU (tokens x intermediate).
  ecq::result<ecq::matrix_view<const float>> gate(std::size_t layer, const layer_matrices& matrices);

  /// Multiplies the result of gate() by the down matrix, and adds the product to the states.
  ecq::result<void> add_feed_forward(std::size_t layer, const layer_matrices& matrices);

  /// Chooses the experts of each token by feed_forward_input(), and returns the logits (tokens x experts).
  ecq::result<ecq::matrix_view<const float>> choose(std::size_t layer);

  /// Returns the numbers, in ascending order, of the tokens that have chosen an expert.
  std::vector<std::size_t> takers(std::size_t expert) const;

  /// Returns feed_forward_input() of the tokens with these numbers in the pass (tokens x hidden).
  ecq::matrix_view<const float> input_of(std::span<const std::size_t> tokens);

  /// Returns the output of an expert's SwiGLU for the input `in` (tokens x intermediate). `in` has at most as many
  /// tokens as the pass.
  ecq::result<ecq::matrix_view<const float>> gate(std::size_t layer, const layer_matrices& matrices, std::size_t expert,
                                                  ecq::matrix_view<const float> in);

  /// Sends each token through the experts that it chooses by feed_forward_input(), and adds the sum of their outputs,
  /// times their shares and in the order of the experts, to the states.
  ecq::result<void> add_experts(std::size_t layer, const layer_matrices& matrices);

 private:
  ecq::result<void> check(std::span<const std::uint32_t> tokens, const kv_cache& cache) const;

  /// Returns the sum of the widths of a token's query, key and value.
  std::size_t attention_width() const noexcept;

  /// Makes room for `count` tokens that follow those in the cache.
  void begin(std::size_t count, kv_cache& cache);

  /// Computes the cosines and sines of `count` positions from `first` on, for every pair of a head.
  void rotations(std::size_t first, std::size_t count);

  /// Rotates the heads of a token in place. A pair has one element in the lower and one in the upper half of a head.
  void rotate(float* heads, std::size_t count, std::size_t token) const noexcept;

  /// Returns rows of the products of gate and up (count x 2 intermediate).
  ecq::matrix_view<float> gate_and_up(std::size_t first, std::size_t count) noexcept;

  /// Returns rows of the output of SwiGLU (count x intermediate).
  ecq::matrix_view<const float> down_input(std::size_t first, std::size_t count) const noexcept;

  /// Applies SwiGLU to the first `count` rows of gate_and_up(), in place.
  void apply_swiglu(std::size_t count);

  /// Sets normed_ to the RMSNorm of states_, and returns it.
  ecq::matrix_view<const float> normalize(const std::vector<float>& weight);

  /// Sets `to` to the RMSNorm of `from`. Both are as wide as `weight`, and may be the same.
  void normalize(const float* from, const std::vector<float>& weight, float* to) const noexcept;

  /// Normalises each head of a token in place; does nothing without weights.
  void normalize_heads(float* heads, std::size_t count, const std::vector<float>& weight) const noexcept;

  /// Multiplies `in` by matrix `index` and those after it that share its input, and adds their biases. `out` has the
  /// products side by side, in the order of the matrices.
  ecq::result<void> multiply(std::size_t layer, const layer_matrices& matrices, std::size_t index,
                             ecq::matrix_view<const float> in, ecq::matrix_view<float> out);

  /// Computes the output of a head of a token from the values of its window. `scores` has room for all positions up to
  /// that of the token.
  void mix_values(std::size_t layer, kv_cache& cache, std::size_t first, std::size_t token, std::size_t head,
                  float* scores) noexcept;

  /// Appends the products that multiply() computes, without the biases, to `products`.
  static void add_products(const layer_matrices& matrices, std::size_t index, ecq::matrix_view<const float> in,
                           ecq::matrix_view<float> out, std::vector<layer_product>& products);

  /// Rows of an expert, one for each token that has chosen it.
  struct expert_rows {
    std::size_t expert;
    std::size_t first;
    std::size_t count;
  };

  /// Sends tokens through some experts, and adds their outputs to delta_. `tokens` has the token of each row.
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
  std::vector<expert_share> chosen_;   ///< tokens x chosen experts of a token
  std::vector<float> taken_, output_;  ///< rows of some experts x hidden: inputs, outputs
  down_observer observe_down_;
  std::size_t replaced_layer_ = 0;
  std::size_t replaced_ = 0;
  const linear_layer* replacement_ = nullptr;
};

}  // namespace llama
