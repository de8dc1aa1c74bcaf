#pragma once
/// \file
/// Llama-shaped checkpoints with the statistics of trained weights, for users without a model at hand.
///
/// Every weight depends only on (seed, tensor, element index): any range can be made by itself, on any number of
/// threads, and is the same on every machine. No operation on the way to a value rounds differently in different C
/// libraries.
///
/// Properties of trained models that the weights have:
///  - shapes, names and order of a Llama checkpoint with grouped-query attention;
///  - tails heavier than Gaussian: Student's t, 6 degrees of freedom for queries and keys, 8 for embeddings, 12 for
///    the rest (excess kurtosis about 3, 1.5 and 0.75, before row scales);
///  - rows (output channels) of different scale: log-normal, sigma 0.15 ... 0.35;
///  - one weight in 65536 is 8 times as large;
///  - scale falls with width as 1 / sqrt(fan-in), grows by half with depth, and is 1 / sqrt(2 layers) smaller where a
///    projection writes into the residual stream;
///  - one super weight, in the down projection of the second layer.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/dtype.hpp"
#include "quantile_table.hpp"

namespace ecq_examples {

/// Shape of a model. Queries have `heads` heads of hidden / heads channels; keys and values have `key_value_heads` such
/// heads.
struct preset {
  std::string_view name;
  std::string_view description;
  std::uint64_t hidden;
  std::uint64_t layers;
  std::uint64_t heads;
  std::uint64_t key_value_heads;
  std::uint64_t intermediate;
  std::uint64_t vocabulary;
};

inline constexpr std::array presets{
    preset{"tiny", "0.5 M weights, 1.0 MB: for tests", 128, 2, 4, 2, 352, 512},
    preset{"demo", "64 M weights, 128 MB: a laptop's minute", 1536, 2, 12, 4, 4096, 4448},
    preset{"1b", "1.1 G weights, 2.2 GB: the shape of TinyLlama 1.1B", 2048, 22, 32, 4, 5632, 32000},
    preset{"2b", "2.1 G weights, 4.0 GiB: more than many machines have to spare", 2560, 28, 20, 4, 7168, 32000},
};

constexpr std::optional<preset> find_preset(std::string_view name) noexcept {
  for (const preset& candidate : presets) {
    if (candidate.name == name) return candidate;
  }
  return std::nullopt;
}

/// A tensor of a synthetic checkpoint, with the parameters of its weights for fill().
struct synthetic_tensor {
  std::string name;
  std::vector<std::uint64_t> shape;  ///< rows (output channels) x columns, or one dimension for norms
  ecq::dtype type = ecq::dtype::bf16;

  std::uint64_t index = 0;                    ///< position in the checkpoint
  std::uint64_t columns = 1;                  ///< weights that share a row scale
  float center = 0.0F;                        ///< added to every weight
  float scale = 0.0F;                         ///< standard deviation of a row of scale 1
  float row_sigma = 0.0F;                     ///< standard deviation of the logarithm of the row scales
  unsigned degrees_of_freedom = 0;            ///< of Student's t; 0: Gaussian
  float outlier_factor = 1.0F;                ///< one weight in 65536 is larger by this factor
  std::optional<std::uint64_t> super_weight;  ///< element whose value is super_weight_value

  std::uint64_t size() const noexcept {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    return count;
  }
};

inline constexpr float super_weight_value = -2.0F;

/// Returns all tensors of a checkpoint, in the order of the file.
std::vector<synthetic_tensor> tensors(const preset& model);

/// Fills `out` with elements first_element ... first_element + out.size() - 1 of `tensor`. Precondition: they are
/// within its size.
void fill(const synthetic_tensor& tensor, std::uint64_t seed, std::uint64_t first_element, std::span<ecq::bf16> out);

/// Fills `out` like fill() without a backend, on all threads of `backend`.
inline void fill(const ecq::cpu& backend, const synthetic_tensor& tensor, std::uint64_t seed,
                 std::uint64_t first_element, std::span<ecq::bf16> out) {
  constexpr std::size_t piece = std::size_t{1} << 18;
  const std::size_t pieces = out.size() / piece + (out.size() % piece != 0 ? 1U : 0U);
  const auto filled = ecq::parallel_for(backend, pieces, [&](std::size_t index) -> ecq::result<void> {
    const std::size_t begin = index * piece;
    fill(tensor, seed, first_element + begin, out.subspan(begin, std::min(piece, out.size() - begin)));
    return {};
  });
  static_cast<void>(filled);  // no task fails
}

namespace detail {

/// Applies the output function of SplitMix64 (Steele, Lea and Flood, 2014) to a counter.
constexpr std::uint64_t mixed(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

constexpr std::uint64_t key_of(std::uint64_t seed, std::uint64_t tensor, std::uint64_t purpose) noexcept {
  return mixed(mixed(mixed(seed) + tensor) + purpose);
}

/// Fills `out` with consecutive weights of one row.
ECQ_EXACT_FLOAT inline void fill_row(const synthetic_tensor& tensor, const quantile_table& quantiles, std::uint64_t key,
                                     float row_scale, std::uint64_t first_element, std::span<ecq::bf16> out) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const float outlier_scale = row_scale * tensor.outlier_factor;
  for (std::size_t index = 0; index < out.size(); ++index) {
    const std::uint64_t random = mixed(key + (first_element + index));
    const float scale = (random & 0xffffU) == 0 ? outlier_scale : row_scale;
    const float weight = tensor.center + quantiles(random) * scale;
    out[index].bits = ecq::bf16::encode(weight);
  }
}

ECQ_EXACT_FLOAT inline float row_scale(const synthetic_tensor& tensor, std::uint64_t key, std::uint64_t row) noexcept {
  ECQ_EXACT_FLOAT_BODY
  if (tensor.row_sigma == 0.0F) return tensor.scale;
  const float exponent = gaussian_quantiles()(mixed(key + row)) * tensor.row_sigma;
  return tensor.scale * static_cast<float>(exact_exp(static_cast<double>(exponent)));
}

}  // namespace detail

inline void fill(const synthetic_tensor& tensor, std::uint64_t seed, std::uint64_t first_element,
                 std::span<ecq::bf16> out) {
  const quantile_table& quantiles = student_t_quantiles(tensor.degrees_of_freedom);
  const std::uint64_t weight_key = detail::key_of(seed, tensor.index, 0);
  const std::uint64_t row_key = detail::key_of(seed, tensor.index, 1);
  std::uint64_t element = first_element;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t row = element / tensor.columns;
    const std::uint64_t left_in_row = (row + 1) * tensor.columns - element;
    const std::size_t length = static_cast<std::size_t>(std::min<std::uint64_t>(left_in_row, out.size() - done));
    detail::fill_row(tensor, quantiles, weight_key, detail::row_scale(tensor, row_key, row), element,
                     out.subspan(done, length));
    done += length;
    element += length;
  }
  if (tensor.super_weight && *tensor.super_weight >= first_element && *tensor.super_weight < element) {
    out[static_cast<std::size_t>(*tensor.super_weight - first_element)] = ecq::bf16(super_weight_value);
  }
}

namespace detail {

/// Makes the tensors of a checkpoint, with the scales that the comment at the head of this file describes.
class checkpoint_builder {
 public:
  explicit checkpoint_builder(const preset& model) : model_(model) {}

  ECQ_EXACT_FLOAT void add_norm(std::string name, double depth) {
    ECQ_EXACT_FLOAT_BODY
    synthetic_tensor& norm = add(std::move(name), {model_.hidden});
    norm.columns = model_.hidden;
    norm.center = static_cast<float>(0.4 + 0.6 * depth);
    norm.scale = 0.05F;
  }

  /// Adds a matrix. `depth` is 0 in the first layer and 1 in the last; `share` scales the usual 1 / sqrt(fan-in).
  ECQ_EXACT_FLOAT synthetic_tensor& add_matrix(std::string name, std::uint64_t rows, std::uint64_t columns,
                                               double depth, double share) {
    ECQ_EXACT_FLOAT_BODY
    synthetic_tensor& matrix = add(std::move(name), {rows, columns});
    matrix.columns = columns;
    matrix.scale = static_cast<float>(share * (1 + 0.5 * depth) / std::sqrt(static_cast<double>(columns)));
    matrix.row_sigma = 0.25F;
    matrix.degrees_of_freedom = 12;
    matrix.outlier_factor = 8.0F;
    return matrix;
  }

  std::vector<synthetic_tensor> take() && { return std::move(tensors_); }

 private:
  synthetic_tensor& add(std::string name, std::vector<std::uint64_t> shape) {
    synthetic_tensor& tensor = tensors_.emplace_back();
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.index = tensors_.size() - 1;
    return tensor;
  }

  const preset& model_;
  std::vector<synthetic_tensor> tensors_;
};

}  // namespace detail

ECQ_EXACT_FLOAT inline std::vector<synthetic_tensor> tensors(const preset& model) {
  ECQ_EXACT_FLOAT_BODY
  detail::checkpoint_builder builder(model);
  const std::uint64_t key_value = model.hidden / model.heads * model.key_value_heads;
  const double into_residual = 1 / std::sqrt(2 * static_cast<double>(model.layers));

  synthetic_tensor& embedding = builder.add_matrix("model.embed_tokens.weight", model.vocabulary, model.hidden, 0, 0.6);
  embedding.degrees_of_freedom = 8;
  embedding.row_sigma = 0.3F;
  for (std::uint64_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const double depth = model.layers > 1 ? static_cast<double>(layer) / static_cast<double>(model.layers - 1) : 0.0;
    builder.add_norm(prefix + "input_layernorm.weight", depth);
    for (const auto& [name, rows] : {std::pair{"q_proj", model.hidden}, std::pair{"k_proj", key_value}}) {
      synthetic_tensor& matrix =
          builder.add_matrix(prefix + "self_attn." + name + ".weight", rows, model.hidden, depth, 1.0);
      matrix.degrees_of_freedom = 6;
      matrix.row_sigma = 0.35F;
    }
    builder.add_matrix(prefix + "self_attn.v_proj.weight", key_value, model.hidden, depth, 0.8).row_sigma = 0.15F;
    builder.add_matrix(prefix + "self_attn.o_proj.weight", model.hidden, model.hidden, depth, 2 * into_residual);
    builder.add_norm(prefix + "post_attention_layernorm.weight", depth);
    builder.add_matrix(prefix + "mlp.gate_proj.weight", model.intermediate, model.hidden, depth, 0.9);
    builder.add_matrix(prefix + "mlp.up_proj.weight", model.intermediate, model.hidden, depth, 0.8).row_sigma = 0.15F;
    synthetic_tensor& down =
        builder.add_matrix(prefix + "mlp.down_proj.weight", model.hidden, model.intermediate, depth, 3 * into_residual);
    down.row_sigma = 0.15F;
    if (layer == 1) {
      down.super_weight = model.hidden / 3 * model.intermediate + model.intermediate / 2 + 5;
    }
  }
  builder.add_norm("model.norm.weight", 1);
  builder.add_matrix("lm_head.weight", model.vocabulary, model.hidden, 0, 0.9).row_sigma = 0.2F;
  return std::move(builder).take();
}

}  // namespace ecq_examples
