// Checks the files of a model against its config.json before it loads anything.

#include "model.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "block_source.hpp"
#include "dense_source.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "fused_source.hpp"
#include "stored_layer.hpp"
#include "stored_tensors.hpp"

namespace llama {

namespace {

constexpr const char* attention_norm_name = "input_layernorm.weight";
constexpr const char* feed_forward_norm_name = "post_attention_layernorm.weight";
constexpr const char* query_norm_name = "self_attn.q_norm.weight";
constexpr const char* key_norm_name = "self_attn.k_norm.weight";
constexpr const char* final_norm_name = "model.norm.weight";

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
}

ecq::result<model> model::open(const std::filesystem::path& path, weight_mode mode, const ecq::cpu& backend,
                               const ecq::progress_callback& report_progress, ecq::activation_type activations) {
  if (activations != ecq::activation_type::fp32 && mode != weight_mode::fused) {
    return ecq::error(ecq::errc::invalid_argument, "rounded activations need mode fused");
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

model::model(model_config config, stored_tensors tensors)
    : config_(std::move(config)), tensors_(std::make_unique<stored_tensors>(std::move(tensors))) {}

model::model(model&&) noexcept = default;
model& model::operator=(model&&) noexcept = default;
model::~model() = default;

ecq::result<const stored_tensor*> model::vector(const std::string& name, std::size_t size) const {
  const std::array<std::uint64_t, 1> shape{size};
  return tensors_->expect(name, shape);
}

ecq::result<const stored_tensor*> model::matrix(const std::string& name, std::size_t rows, std::size_t columns) const {
  const std::array<std::uint64_t, 2> shape{rows, columns};
  return tensors_->expect(name, shape);
}

ecq::result<std::vector<std::vector<const stored_tensor*>>> model::find_layers() const {
  const model_config& size = config_;
  const by_projection<extents> shapes{{{size.query_width(), size.hidden},
                                       {size.key_width(), size.hidden},
                                       {size.key_width(), size.hidden},
                                       {size.hidden, size.query_width()},
                                       {size.intermediate, size.hidden},
                                       {size.intermediate, size.hidden},
                                       {size.hidden, size.intermediate}}};
  std::vector<std::vector<const stored_tensor*>> found;
  for (std::size_t layer = 0; layer < size.layers; ++layer) {
    auto& tensors = found.emplace_back();
    for (std::size_t index = 0; index < size.mixture.matrices(); ++index) {
      const extents& shape = shapes[static_cast<std::size_t>(projection_at(index))];
      ECQ_TRY(tensor, matrix(tensor_name(size.mixture, layer, index), shape.rows, shape.columns));
      tensors.push_back(tensor);
    }
    for (std::size_t index = 0; index < projections; ++index) {
      if (!size.biases[index]) continue;
      ECQ_CHECK(vector(bias_name(layer, static_cast<projection>(index)), shapes[index].rows));
    }
    if (size.mixture.experts != 0) {
      ECQ_CHECK(matrix(router_name(size.mixture, layer), size.mixture.experts, size.hidden));
    }
    for (const char* const name : {attention_norm_name, feed_forward_norm_name}) {
      ECQ_CHECK(vector(layer_name(layer) + name, size.hidden));
    }
    if (!size.head_norms) continue;
    for (const char* const name : {query_norm_name, key_norm_name}) {
      ECQ_CHECK(vector(layer_name(layer) + name, size.head_width));
    }
  }
  ECQ_CHECK(vector(final_norm_name, size.hidden));
  ECQ_CHECK(matrix("model.embed_tokens.weight", size.vocabulary, size.hidden));
  if (!size.tied) ECQ_CHECK(matrix("lm_head.weight", size.vocabulary, size.hidden));
  return found;
}

bool model::has_own_head() const noexcept {
  const stored_tensor* head = tensors_->find("lm_head.weight");
  const stored_tensor* embedding = tensors_->find("model.embed_tokens.weight");
  if (head == nullptr || embedding == nullptr) return head != nullptr;
  return head->coded() || embedding->coded() || !std::ranges::equal(head->bytes, embedding->bytes);
}

ecq::result<void> model::check_others() const {
  std::set<std::string, std::less<>> known;
  known.emplace(final_norm_name);
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    known.insert({layer_name(layer) + attention_norm_name, layer_name(layer) + feed_forward_norm_name});
    if (config_.head_norms) known.insert({layer_name(layer) + query_norm_name, layer_name(layer) + key_norm_name});
    for (std::size_t index = 0; index < projections; ++index) {
      if (config_.biases[index]) known.insert(bias_name(layer, static_cast<projection>(index)));
    }
  }
  ecq::result<void> outcome;
  const std::string beyond = layer_name(config_.layers);
  tensors_->each([&](const stored_tensor& tensor) {
    if (!outcome) return;
    const std::string_view name = tensor.name;
    const auto unsupported = [&](const char* what) {
      return ecq::error(ecq::errc::unsupported, "tensor '", name, "': ", what, " that config.json does not mention");
    };
    if (name.starts_with(beyond)) {
      outcome = ecq::error(ecq::errc::corrupt, "tensor '", name, "': config.json has only ", config_.layers, " layers");
    } else if ((name.starts_with("model.") || name == "lm_head.bias") && !known.contains(name)) {
      if (name.ends_with(".bias")) outcome = unsupported("a bias");
      if (name.ends_with("norm.weight")) outcome = unsupported("a norm");
    }
  });
  return outcome;
}

ecq::result<void> model::load(weight_mode mode, const ecq::cpu& backend, const ecq::progress_callback& report_progress,
                              ecq::activation_type activations) {
  config_.tied = config_.tied && !has_own_head();
  ECQ_TRY(layers, find_layers());
  ECQ_CHECK(check_others());
  ECQ_CHECK(load_outside(backend));
  ECQ_CHECK(load_vectors(backend));
  auto dense = std::make_unique<dense_source>();
  auto fused = std::make_unique<fused_source>(activations);
  std::vector<stored_layer> stored;
  std::uint64_t done = 0, each = 0;
  for (const stored_tensor* tensor : layers.front()) each += extents_of(*tensor).size() * sizeof(ecq::bf16);
  for (std::size_t index = 0; index < layers.size(); ++index, done += each) {
    if (report_progress) report_progress({"loading", layer_name(index), done, each * layers.size()});
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

ecq::result<void> model::load_outside(const ecq::cpu& backend) {
  ECQ_TRY(embedding, bf16_matrix::load(backend, *tensors_->find("model.embed_tokens.weight")));
  embedding_ = std::move(embedding);
  memory_.dense += embedding_.size_bytes();
  if (!config_.tied) {
    ECQ_TRY(head, bf16_matrix::load(backend, *tensors_->find("lm_head.weight")));
    head_weights_ = std::move(head);
    memory_.dense += head_weights_.size_bytes();
  }
  head_ = std::make_unique<dense_layer>(config_.tied ? embedding_.view() : head_weights_.view());
  for (std::size_t layer = 0; layer < config_.layers && config_.mixture.experts != 0; ++layer) {
    ECQ_TRY(router, bf16_matrix::load(backend, *tensors_->find(router_name(config_.mixture, layer))));
    memory_.dense += router.size_bytes();
    const auto view = router.view();
    routers_.push_back({std::move(router), std::make_unique<dense_layer>(view)});
  }
  return {};
}

ecq::result<void> model::load_vectors(const ecq::cpu& backend) {
  const auto load = [&](const std::string& name, std::vector<float>& to) -> ecq::result<void> {
    ECQ_TRY(loaded, load_floats(backend, *tensors_->find(name)));
    memory_.dense += loaded.size() * sizeof(float);
    to.insert(to.end(), loaded.begin(), loaded.end());
    return {};
  };
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    layer_vectors& vectors = vectors_.emplace_back();
    const std::string prefix = layer_name(layer);
    ECQ_CHECK(load(prefix + attention_norm_name, vectors.attention_norm));
    ECQ_CHECK(load(prefix + feed_forward_norm_name, vectors.feed_forward_norm));
    if (config_.head_norms) {
      ECQ_CHECK(load(prefix + query_norm_name, vectors.query_norm));
      ECQ_CHECK(load(prefix + key_norm_name, vectors.key_norm));
    }
    for (std::size_t index = 0, first = 0; index < projections; ++index) {
      if (!shares_input(index)) first = index;
      if (!config_.biases[index]) continue;
      ECQ_CHECK(load(bias_name(layer, static_cast<projection>(index)), vectors.biases[first]));
    }
  }
  return load(final_norm_name, final_norm_);
}

}  // namespace llama
