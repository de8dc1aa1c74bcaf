#pragma once
/// \file
/// A Llama-like model from its files, ready for the forward pass.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dense_weights.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/format/bf16.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "model_config.hpp"
#include "projection.hpp"

namespace ecq {
enum class activation_type : unsigned char;
struct cpu;
}  // namespace ecq

namespace llama {

struct stored_tensor;
class stored_tensors;

/// Treatment of the coded matrices of layers. In every mode, all other weights are decoded once, and plain BF16
/// matrices stay in their mapped file.
enum class weight_mode : std::uint8_t {
  dense,  ///< decoded once, to BF16
  block,  ///< decoded again for each pass, one layer ahead (block_source)
  fused   ///< multiplied in coded form (fused_source)
};

/// Returns the folder that holds config.json and the tokenizer of the model at `path`.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Vectors of a layer, besides its matrices.
struct layer_vectors {
  std::vector<float> attention_norm, feed_forward_norm;  ///< hidden
  std::vector<float> query_norm, key_norm;               ///< a head's width; empty without norms of heads
  by_projection<std::vector<float>> biases;  ///< of a matrix and those after it that share its input; or empty
};

/// Weights of a model. It may be moved, not copied.
class model {
 public:
  model(model&&) noexcept;
  model& operator=(model&&) noexcept;
  ~model();

  /// Opens the model at `path` (a folder, an index or a file beside config.json) and loads the weights that `mode`
  /// needs in memory, on the threads of `backend`. Shapes are checked before memory is allocated. Errors: those of
  /// read_model_config, stored_tensors and tensor_decoder, which name files and tensors; ecq::errc::invalid_argument
  /// for rounded activations in a mode other than fused.
  static ecq::result<model> open(const std::filesystem::path& path, weight_mode mode, const ecq::cpu& backend,
                                 const ecq::progress_callback& report_progress = {},
                                 ecq::activation_type activations = {});  // fp32

  const model_config& config() const noexcept { return config_; }
  ecq::matrix_view<const ecq::bf16> embedding() const noexcept { return embedding_.view(); }  ///< vocabulary x hidden
  const layer_vectors& vectors(std::size_t layer) const noexcept { return vectors_[layer]; }
  const std::vector<float>& final_norm() const noexcept { return final_norm_; }
  const linear_layer& head() const noexcept { return *head_; }
  /// The matrix (experts x hidden) by which the tokens of a layer choose experts. Precondition: the model has experts.
  const linear_layer& router(std::size_t layer) const noexcept { return *routers_[layer].matrix; }
  layer_source& layers() const noexcept { return *layers_; }
  /// The weights as they are stored.
  const stored_tensors& tensors() const noexcept { return *tensors_; }
  /// The bytes of all weights.
  memory_use memory() const noexcept { return memory_; }

 private:
  struct router_weights {
    bf16_matrix weights;
    std::unique_ptr<linear_layer> matrix;
  };

  model(model_config config, stored_tensors tensors);

  ecq::result<const stored_tensor*> vector(const std::string& name, std::size_t size) const;
  ecq::result<const stored_tensor*> matrix(const std::string& name, std::size_t rows, std::size_t columns) const;

  /// Finds all tensors and checks their shapes.
  ecq::result<std::vector<std::vector<const stored_tensor*>>> find_layers() const;

  /// Whether the files have a head that is not the embedding. If so, it counts, even if config.json says that the two
  /// are tied, as in transformers.
  bool has_own_head() const noexcept;

  /// Rejects tensors which show that config.json describes another model.
  ecq::result<void> check_others() const;

  ecq::result<void> load(weight_mode mode, const ecq::cpu& backend, const ecq::progress_callback& report_progress,
                         ecq::activation_type activations);

  /// Loads embedding, head and routers.
  ecq::result<void> load_outside(const ecq::cpu& backend);

  /// Loads the vectors of all layers and the last norm.
  ecq::result<void> load_vectors(const ecq::cpu& backend);

  model_config config_;
  std::unique_ptr<stored_tensors> tensors_;  ///< before the members that refer to the files that it maps
  bf16_matrix embedding_, head_weights_;
  std::vector<layer_vectors> vectors_;
  std::vector<float> final_norm_;
  std::unique_ptr<linear_layer> head_;
  std::vector<router_weights> routers_;
  std::unique_ptr<layer_source> layers_;
  memory_use memory_;
};

}  // namespace llama
