#pragma once
/// \file
/// Definition of the choice of tensors.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/quantize/finite.hpp"

namespace ecq::detail {

/// The streams of `block`, in the order of their first tensors; with `by_shard`, of one file each.
ECQ_INLINE std::vector<selected_block> split_block(const selected_block& block, stream_sharing sharing, bool by_shard) {
  std::vector<selected_block> parts;
  for (std::size_t index = 0; index < block.matrices.size(); ++index) {
    const named_weights& matrix = block.matrices[index];
    std::string name = block.name;
    // Bytes of one tensor say nothing about those of another: packed codes and their scales may have the same type.
    const bool of_bytes = !matrix.element_type.empty();
    if (sharing == stream_sharing::matrix || of_bytes) {
      name = matrix.name;
    } else if (sharing == stream_sharing::format) {
      name += "." + std::string(to_string(matrix.weights.type()));
    }
    const std::size_t shard = by_shard ? block.entries[index]->shard : 0;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const selected_block& each) { return each.name == name && each.shard == shard; });
    if (part == parts.end()) {
      part = parts.insert(part, {.name = name, .falls_back = block.falls_back, .shard = shard});
    }
    part->add(*block.entries[index], matrix);
  }
  return parts;
}

/// Whether a lossless method codes the bytes of a tensor, rather than the exponents of weights.
ECQ_INLINE bool is_coded_as_bytes(const tensor_entry& tensor) {
  const auto type = dtype_from_safetensors(tensor.dtype);
  return !(type && is_floating_point(*type)) && tensor.size_bytes() >= least_coded_bytes;
}

ECQ_INLINE std::vector<tensor_summary> model_selection::summaries() const {
  std::vector<tensor_summary> made;
  for (std::size_t position = 0; position < model_->tensors().size(); ++position) {
    const tensor_entry& tensor = model_->tensors()[position];
    if (quantized_) {
      made.push_back({tensor.name, quantized_->weight_type(tensor, position), tensor.shape});
    } else {
      made.push_back({tensor.name, dtype_from_safetensors(tensor.dtype), tensor.shape, is_coded_as_bytes(tensor)});
    }
  }
  return made;
}

ECQ_INLINE result<named_weights> model_selection::matrix_of(std::size_t position) const {
  const tensor_entry& tensor = model_->tensors()[position];
  const auto bytes = model_->bytes(tensor);
  if (!quantized_ && is_coded_as_bytes(tensor)) {
    const weights_view rows_of_a_byte(dtype::uint8, bytes.data(), bytes.size(), 1, 1);
    return named_weights{tensor.name, rows_of_a_byte, tensor.shape, tensor.dtype};
  }
  ECQ_TRY(weights, quantized_ ? quantized_->weights_of(tensor, position, bytes) : as_weights(tensor, bytes));
  return named_weights{tensor.name, weights, tensor.shape};
}

/// Whether a tensor with NaN or infinity stays as it is.
ECQ_INLINE result<bool> model_selection::is_left_out(const cpu& backend, const tensor_entry& tensor,
                                                     const named_weights& matrix,
                                                     const compress_options& options) const {
  if (!options.keep_non_finite || !quantized_) return false;
  const auto finite = check_finite(backend, matrix.weights);
  model_->release(tensor);
  if (!finite && finite.error().code() == errc::non_finite) return true;
  ECQ_CHECK(finite);
  return false;
}

ECQ_INLINE void model_selection::list_kept(const std::optional<folder_part>& only) {
  for (std::size_t position = 0; position < model_->tensors().size(); ++position) {
    const tensor_entry& tensor = model_->tensors()[position];
    if (selected_.contains(&tensor) || scales_.contains(&tensor)) continue;
    if (only && !only->holds(tensor.shard)) continue;
    kept_.push_back(&tensor);
    if (quantized_ && (*quantized_)[position].belongs) ++of_quantized_;
  }
}

ECQ_INLINE error model_selection::nothing_selected() const {
  const std::string hint = of_quantized_ == 0 ? ""
                                              : text_of("; ", of_quantized_,
                                                        " belong to quantised weights, which only lossless methods "
                                                        "take");
  return error(errc::invalid_argument, "none of ", model_->tensors().size(),
               " tensors is selected: weights have two dimensions or more, and "
               "embeddings have to be included by name",
               hint);
}

ECQ_INLINE result<model_selection> model_selection::of(const cpu& backend, const checkpoint& model,
                                                       const compress_options& options,
                                                       const compression_method& method,
                                                       const compression_method& fallback,
                                                       const std::optional<folder_part>& only) {
  model_selection made(model, method.lossless());
  tensor_selection rules = options.selection;
  rules.embeddings = rules.embeddings || method.lossless();
  ECQ_TRY(chosen, select_tensors(rules, made.summaries()));
  std::size_t tensors[2] = {};  // of the method, and of the fallback
  for (const tensor_block& block : chosen) {
    selected_block parts[2] = {{.name = block.name}, {.name = block.name + ".fallback", .falls_back = true}};
    for (const std::size_t position : block.tensors) {
      const tensor_entry& tensor = model.tensors()[position];
      ECQ_TRY(matrix, made.matrix_of(position));
      ECQ_TRY(left_out, made.is_left_out(backend, tensor, matrix, options));
      if (left_out) continue;
      parts[matches_any(options.fallback_names, tensor.name) ? 1 : 0].add(tensor, matrix);
      made.selected_.insert(&tensor);
      if (matrix.weights.is_scaled()) made.scales_.insert((*made.quantized_)[position].scale);
    }
    for (const selected_block& kept : parts) {
      for (selected_block& part :
           split_block(kept, (kept.falls_back ? fallback : method).sharing(), only.has_value())) {
        if (only && !only->holds(part.shard)) continue;
        part.first = tensors[part.falls_back ? 1 : 0];
        tensors[part.falls_back ? 1 : 0] += part.entries.size();
        for (const tensor_entry* tensor : part.entries) made.selected_bytes_ += tensor->size_bytes();
        made.blocks_.push_back(std::move(part));
      }
    }
  }
  made.list_kept(only);
  // A part of a model may well have nothing to compress.
  if (made.blocks_.empty() && !(only && only->count > 1)) return made.nothing_selected();
  return made;
}

}  // namespace ecq::detail
