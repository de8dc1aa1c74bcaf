#pragma once
/// \file
/// A Llama-like model from its files, ready for the forward pass.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "block_source.hpp"
#include "dense_weights.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "fused_source.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "model_config.hpp"
#include "stored_tensors.hpp"

namespace llama {

/// What becomes of coded matrices of layers. All other weights are decoded once in every mode, and plain BF16 matrices
/// stay in their mapped file.
enum class weight_mode : std::uint8_t {
  dense,  ///< decoded once, to BF16
  block,  ///< decoded again for each pass, one layer ahead (block_source)
  fused   ///< multiplied as they lie (fused_source)
};

/// The folder that holds config.json and the tokenizer of the model at `path`.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
}

/// The weights of a model. It may be moved, not copied.
class model {
 public:
  /// Opens the model at `path` (a folder, an index or a file beside config.json) and loads what its mode needs in
  /// memory, on the threads of `backend`. Shapes are checked before memory is allocated. Errors: those of
  /// read_model_config, stored_tensors and tensor_decoder; they name files and tensors. Coded matrices multiply
  /// quantised activations in mode fused alone; invalid_argument in others.
  static ecq::result<model> open(const std::filesystem::path& path, weight_mode mode, const ecq::cpu& backend,
                                 const ecq::progress_callback& report_progress = {},
                                 ecq::activation_type activations = ecq::activation_type::fp32) {
    if (activations != ecq::activation_type::fp32 && mode != weight_mode::fused) {
      return ecq::error(ecq::errc::invalid_argument, "quantised activations are for mode fused");
    }
    ECQ_TRY(config, read_model_config(folder_of(path)));
    try {
      ECQ_TRY(tensors, stored_tensors::open(path));
      model opened(std::move(config), std::move(tensors));
      auto loaded = opened.load(mode, backend, report_progress, activations);
      if (!loaded) return std::move(loaded).error().within("'", path.string(), "'");
      return opened;
    } catch (const std::bad_alloc&) {
      return ecq::error(ecq::errc::out_of_memory, "'", path.string(), "': no memory for its weights");
    } catch (const std::length_error&) {
      return ecq::error(ecq::errc::out_of_memory, "'", path.string(), "': more weights than memory has addresses");
    }
  }

  const model_config& config() const noexcept { return config_; }
  ecq::matrix_view<const ecq::bf16> embedding() const noexcept { return embedding_.view(); }  ///< vocabulary x hidden
  const std::vector<float>& attention_norm(std::size_t layer) const noexcept { return norms_[layer][0]; }
  const std::vector<float>& feed_forward_norm(std::size_t layer) const noexcept { return norms_[layer][1]; }
  const std::vector<float>& final_norm() const noexcept { return final_norm_; }
  const linear_layer& head() const noexcept { return *head_; }
  layer_source& layers() const noexcept { return *layers_; }
  /// The weights as they are stored.
  const stored_tensors& tensors() const noexcept { return *tensors_; }
  /// The bytes of all weights.
  memory_use memory() const noexcept { return memory_; }

 private:
  model(model_config config, stored_tensors tensors)
      : config_(std::move(config)), tensors_(std::make_unique<stored_tensors>(std::move(tensors))) {}

  static std::string layer_prefix(std::size_t layer) { return "model.layers." + std::to_string(layer) + "."; }

  ecq::result<const stored_tensor*> vector(const std::string& name) const {
    const std::array<std::uint64_t, 1> shape{config_.hidden};
    return tensors_->expect(name, shape);
  }
  ecq::result<const stored_tensor*> matrix(const std::string& name, std::size_t rows, std::size_t columns) const {
    const std::array<std::uint64_t, 2> shape{rows, columns};
    return tensors_->expect(name, shape);
  }

  /// Finds all tensors and checks their shapes.
  ecq::result<std::vector<by_projection<const stored_tensor*>>> find_layers() const {
    const model_config& size = config_;
    const by_projection<extents> shapes{{{size.query_width(), size.hidden},
                                         {size.key_width(), size.hidden},
                                         {size.key_width(), size.hidden},
                                         {size.hidden, size.query_width()},
                                         {size.intermediate, size.hidden},
                                         {size.intermediate, size.hidden},
                                         {size.hidden, size.intermediate}}};
    std::vector<by_projection<const stored_tensor*>> found;
    for (std::size_t layer = 0; layer < size.layers; ++layer) {
      auto& tensors = found.emplace_back();
      for (std::size_t index = 0; index < projections; ++index) {
        const std::string name = tensor_name(layer, static_cast<projection>(index));
        ECQ_TRY(tensor, matrix(name, shapes[index].rows, shapes[index].columns));
        tensors[index] = tensor;
      }
      for (const char* const name : {"input_layernorm.weight", "post_attention_layernorm.weight"}) {
        ECQ_CHECK(vector(layer_prefix(layer) + name));
      }
    }
    ECQ_CHECK(vector("model.norm.weight"));
    ECQ_CHECK(matrix("model.embed_tokens.weight", size.vocabulary, size.hidden));
    if (!size.tied) ECQ_CHECK(matrix("lm_head.weight", size.vocabulary, size.hidden));
    return found;
  }

  /// Refuses tensors that say that the model is another one than config.json describes.
  ecq::result<void> check_others() const {
    ecq::result<void> outcome;
    const std::string beyond = layer_prefix(config_.layers);
    tensors_->each([&](const stored_tensor& tensor) {
      if (!outcome) return;
      if (tensor.name.starts_with(beyond)) {
        outcome =
            ecq::error(ecq::errc::corrupt, "tensor '", tensor.name, "': config.json has ", config_.layers, " layers");
      } else if (tensor.name.starts_with("model.") && tensor.name.ends_with(".bias")) {
        outcome = ecq::error(ecq::errc::unsupported, "tensor '", tensor.name, "': a bias");
      }
    });
    return outcome;
  }

  ecq::result<void> load(weight_mode mode, const ecq::cpu& backend, const ecq::progress_callback& report_progress,
                         ecq::activation_type activations) {
    ECQ_TRY(layers, find_layers());
    ECQ_CHECK(check_others());
    ECQ_CHECK(load_outside(backend));
    auto dense = std::make_unique<dense_source>();
    auto fused = std::make_unique<fused_source>(activations);
    std::vector<stored_layer> stored;
    std::uint64_t done = 0, each = 0;
    for (const stored_tensor* tensor : layers.front()) each += extents_of(*tensor).size() * sizeof(ecq::bf16);
    for (std::size_t index = 0; index < layers.size(); ++index, done += each) {
      if (report_progress) report_progress({"loading", layer_prefix(index), done, each * layers.size()});
      if (mode == weight_mode::fused) {
        ECQ_CHECK(fused->add(backend, layers[index]));
        continue;
      }
      ECQ_TRY(layer, stored_layer::open(backend, layers[index]));
      if (mode == weight_mode::dense) {
        ECQ_CHECK(dense->add(backend, std::move(layer)));
      } else {
        stored.push_back(std::move(layer));
      }
    }
    if (mode == weight_mode::dense) {
      layers_ = std::move(dense);
    } else if (mode == weight_mode::fused) {
      layers_ = std::move(fused);
    } else {
      layers_ = std::make_unique<block_source>(backend, std::move(stored));
    }
    const memory_use of_layers = layers_->memory();
    memory_.dense += of_layers.dense;
    memory_.coded = of_layers.coded;
    memory_.buffers = of_layers.buffers;
    return {};
  }

  /// Loads what belongs to no layer, and the norms.
  ecq::result<void> load_outside(const ecq::cpu& backend) {
    ECQ_TRY(embedding, bf16_matrix::load(backend, *tensors_->find("model.embed_tokens.weight")));
    embedding_ = std::move(embedding);
    memory_.dense += embedding_.size_bytes();
    if (!config_.tied) {
      ECQ_TRY(head, bf16_matrix::load(backend, *tensors_->find("lm_head.weight")));
      head_weights_ = std::move(head);
      memory_.dense += head_weights_.size_bytes();
    }
    head_ = std::make_unique<dense_layer>(config_.tied ? embedding_.view() : head_weights_.view());
    const auto norm = [&](const std::string& name) {
      memory_.dense += config_.hidden * sizeof(float);
      return load_floats(backend, *tensors_->find(name));
    };
    for (std::size_t layer = 0; layer < config_.layers; ++layer) {
      ECQ_TRY(attention, norm(layer_prefix(layer) + "input_layernorm.weight"));
      ECQ_TRY(feed_forward, norm(layer_prefix(layer) + "post_attention_layernorm.weight"));
      norms_.push_back({std::move(attention), std::move(feed_forward)});
    }
    ECQ_TRY(last, norm("model.norm.weight"));
    final_norm_ = std::move(last);
    return {};
  }

  model_config config_;
  std::unique_ptr<stored_tensors> tensors_;  ///< first, as others refer to the files that it maps
  bf16_matrix embedding_, head_weights_;
  std::vector<std::array<std::vector<float>, 2>> norms_;
  std::vector<float> final_norm_;
  std::unique_ptr<linear_layer> head_;
  std::unique_ptr<layer_source> layers_;
  memory_use memory_;
};

}  // namespace llama
