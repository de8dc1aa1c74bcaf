#pragma once
/// \file
/// Definition of model_selection.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/outliers.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/file_plan.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/io/safetensors_dtype.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/stream_header.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

/// Splits `block` into one block per stream, in the order of their first tensors. `file_of(tensor)` is the number of a
/// tensor's file.
template <class FileOf>
std::vector<selected_block> split_block(const selected_block& block, stream_sharing sharing, FileOf&& file_of) {
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
    const std::size_t file = file_of(*block.entries[index]);
    auto part = std::find_if(parts.begin(), parts.end(), [&](const selected_block& each) {
      return each.name == name && each.file == file && each.matrices.front().element_type.empty() == !of_bytes;
    });
    if (part == parts.end()) {
      part = parts.insert(part, {.name = name, .falls_back = block.falls_back, .file = file});
    }
    part->add(*block.entries[index], matrix);
  }
  return parts;
}

/// Whether FP8 weights take fewer bits if they are coded by whole bytes than by exponents. Bytes need a stream of their
/// own.
ECQ_INLINE result<bool> is_smaller_as_bytes(const cpu& backend, dtype type, std::span<const std::byte> weights,
                                            const compress_options& options) {
  ECQ_TRY(bytes, count_codes(backend, {reinterpret_cast<const std::uint8_t*>(weights.data()), weights.size()}));
  ECQ_TRY(exponents, count_exponents(backend, type, weights));
  const double gain = entropy_of(exponents) + stream_header::never_coded_bits(type) - entropy_of(bytes);
  const unsigned chunk_bits =
      options.chunk_bits != 0 ? options.chunk_bits : default_chunk_bits(weights.size(), options.goal);
  const auto overhead = static_cast<double>(stream_overhead_bytes(weights.size(), chunk_bits));
  return gain * static_cast<double>(weights.size()) > 8 * overhead;
}

/// Decides which tensors a lossless method codes by their bytes, rather than by the exponents of weights: all that are
/// not weights, unless they are small, and, if `options` leave the coder open, FP8 weights that take fewer bits that
/// way.
ECQ_INLINE result<void> model_selection::find_what_is_coded_as_bytes(const cpu& backend,
                                                                     const compress_options& options) {
  for (std::size_t position = 0; position < as_bytes_.size(); ++position) {
    const tensor_entry& tensor = model_->tensors()[position];
    const auto type = dtype_from_safetensors(tensor.dtype);
    if (tensor.size_bytes() < least_coded_bytes) continue;
    if (!(type && is_floating_point(*type))) {
      as_bytes_[position] = true;
    } else if (!options.coder && size_of(*type) == 1) {
      ECQ_TRY(smaller, is_smaller_as_bytes(backend, *type, model_->bytes(tensor), options));
      as_bytes_[position] = smaller;
      model_->release(tensor);
    }
  }
  return {};
}

ECQ_INLINE std::vector<tensor_summary> model_selection::summaries() const {
  std::vector<tensor_summary> made;
  for (std::size_t position = 0; position < model_->tensors().size(); ++position) {
    const tensor_entry& tensor = model_->tensors()[position];
    if (quantized_) {
      made.push_back({tensor.name, quantized_->weight_type(tensor, position), tensor.shape});
    } else {
      made.push_back({tensor.name, dtype_from_safetensors(tensor.dtype), tensor.shape, as_bytes_[position]});
    }
  }
  return made;
}

ECQ_INLINE result<named_weights> model_selection::matrix_of(std::size_t position) const {
  const tensor_entry& tensor = model_->tensors()[position];
  const auto bytes = model_->bytes(tensor);
  if (as_bytes_[position]) {
    const weights_view rows_of_a_byte(dtype::uint8, bytes.data(), bytes.size(), 1, 1);
    return named_weights{tensor.name, rows_of_a_byte, tensor.shape, tensor.dtype};
  }
  ECQ_TRY(weights, quantized_ ? quantized_->weights_of(tensor, position, bytes) : as_weights(tensor, bytes));
  return named_weights{tensor.name, weights, tensor.shape};
}

/// Whether a tensor stays as it is because it has NaN or infinity.
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

ECQ_INLINE result<named_weights> model_selection::with_exact(const cpu& backend, const tensor_entry& tensor,
                                                             const named_weights& matrix, const exact_choice& choice) {
  const weights_view& weights = matrix.weights;
  std::vector<std::uint64_t> positions;
  if (const auto chosen = choice.places.find(tensor.name); chosen != choice.places.end()) {
    for (const auto& [row, column] : chosen->second) {
      if (row >= weights.rows() || column >= weights.columns()) {
        return error(errc::invalid_argument, "tensor '", tensor.name, "': exact weight at row ", row, ", column ",
                     column, " is outside ", weights.rows(), " x ", weights.columns());
      }
      positions.push_back(row * weights.columns() + column);
    }
  }
  if (choice.outlier_ratio != 0) {
    ECQ_TRY(outliers, find_outliers(backend, weights, choice.outlier_ratio));
    positions.insert(positions.end(), outliers.begin(), outliers.end());
    model_->release(tensor);
  }
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  named_weights made = matrix;
  if (!positions.empty()) made.weights = weights.with_exact(exact_[&tensor] = std::move(positions));
  return made;
}

ECQ_INLINE result<void> model_selection::divide_bits(const sensitivity_map& sensitivities) {
  if (sensitivities.empty()) return {};
  double logs = 0;
  std::size_t tensors = 0;
  for (const selected_block& block : blocks_) {
    for (const named_weights& matrix : block.matrices) {
      if (block.falls_back) continue;
      const auto found = sensitivities.find(matrix.name);
      if (found == sensitivities.end()) {
        return error(errc::not_found, "tensor '", matrix.name, "' has no sensitivity");
      }
      const std::vector<double>& values = found->second.values;
      if (values.size() != 1 && values.size() != matrix.weights.rows()) {
        return error(errc::invalid_argument, "tensor '", matrix.name, "': ", values.size(), " row sensitivities for ",
                     matrix.weights.rows(), " rows");
      }
      if (const auto wrong = std::ranges::find_if_not(values, is_sensitivity); wrong != values.end()) {
        return error(errc::invalid_argument, "tensor '", matrix.name, "': sensitivity ", *wrong, " in row ",
                     wrong - values.begin(), " is not from 1e-12 to 1e12");
      }
      if (values.empty()) continue;
      logs += std::log(found->second.mean());
      ++tensors;
    }
  }
  const auto factor_of = [mean = logs / static_cast<double>(tensors)](double sensitivity) {
    return short_lambda(std::exp(-0.75 * (std::log(sensitivity) - mean)));
  };
  for (selected_block& block : blocks_) {
    if (block.falls_back) continue;
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      named_weights& matrix = block.matrices[index];
      const tensor_sensitivity& sensitivity = sensitivities.find(matrix.name)->second;
      if (sensitivity.values.empty()) continue;
      matrix.lambda_factor = factor_of(sensitivity.mean());
      if (sensitivity.values.size() == 1) continue;
      std::vector<double>& of_rows = row_factors_[block.entries[index]];
      std::ranges::transform(sensitivity.values, std::back_inserter(of_rows), factor_of);
      matrix.row_factors = of_rows;
    }
  }
  return {};
}

/// Returns the files to write. Tensors of selected weights count for one byte per weight; coded, they exceed that at
/// most by their scales and tables.
ECQ_INLINE file_plan model_selection::plan_files(const compress_options& options, const model_files* files) const {
  if (files == nullptr) return file_plan::one_file(*model_);
  if (options.max_file_bytes == 0) return file_plan::as_original(*model_, *files);
  std::vector<std::uint64_t> bytes;
  for (const tensor_entry& tensor : model_->tensors()) {
    std::uint64_t size = is_applied(tensor) ? 0 : tensor.size_bytes();
    if (quantized_ && selected_.contains(&tensor)) size = size * 8 / find_safetensors_dtype(tensor.dtype)->bits;
    bytes.push_back(size);
  }
  return file_plan::by_size(*model_, *files, bytes, options.max_file_bytes);
}

ECQ_INLINE void model_selection::list_kept() {
  for (const tensor_entry& tensor : model_->tensors()) {
    if (!selected_.contains(&tensor) && !is_applied(tensor)) kept_.push_back(&tensor);
  }
}

ECQ_INLINE error model_selection::nothing_selected() const {
  const auto of_quantized =
      std::ranges::count_if(kept_, [&](const tensor_entry* tensor) { return is_of_quantized(*tensor); });
  std::string hint;
  if (of_quantized != 0) {
    hint = text_of("; ", of_quantized, " belong to quantised weights, which only lossless methods compress");
  }
  if (!non_finite_.empty()) hint += text_of("; ", non_finite_.size(), " contain NaN or infinity");
  std::set<std::string_view> other_types;
  for (const tensor_entry* tensor : kept_) {
    if (tensor->shape.size() >= 2 && !dtype_from_safetensors(tensor->dtype)) other_types.insert(tensor->dtype);
  }
  for (const std::string_view type : other_types) hint += text_of("; ", type, " is not a weight type");
  return error(errc::invalid_argument, "none of ", model_->tensors().size(),
               " tensors is selected: weights have two or more dimensions, and "
               "embeddings must be included by name",
               hint);
}

ECQ_INLINE result<model_selection> model_selection::of(const cpu& backend, const checkpoint& model,
                                                       const compress_options& options,
                                                       const compression_method& method,
                                                       const compression_method& fallback, const model_files* files) {
  model_selection made(model);
  if (method.lossless()) {
    ECQ_CHECK(made.find_what_is_coded_as_bytes(backend, options));
  } else {
    made.quantized_ = quantized_tensors::find(model);
  }
  for (const auto& each : options.exact.places) {
    if (model.find(each.first) != nullptr) continue;
    return error(errc::not_found, "tensor '", each.first, "' has weights to keep exact, but is not in the model");
  }
  ECQ_CHECK(check_sensitivities(options.sensitivities, model));
  tensor_selection rules = options.selection;
  rules.everything = rules.everything || method.lossless();
  ECQ_TRY(chosen, select_tensors(rules, made.summaries()));
  std::vector<selected_block> whole;  // before blocks are split
  for (const tensor_block& block : chosen) {
    selected_block parts[2] = {{.name = block.name}, {.name = block.name + ".fallback", .falls_back = true}};
    for (const std::size_t position : block.tensors) {
      const tensor_entry& tensor = model.tensors()[position];
      ECQ_TRY(matrix, made.matrix_of(position));
      ECQ_TRY(left_out, made.is_left_out(backend, tensor, matrix, options));
      if (left_out) {
        made.non_finite_.insert(&tensor);
        continue;
      }
      if (!method.lossless()) {
        ECQ_TRY(all, made.with_exact(backend, tensor, matrix, options.exact));
        matrix = std::move(all);
      }
      parts[matches_any(options.fallback_names, tensor.name) ? 1 : 0].add(tensor, matrix);
      made.selected_.insert(&tensor);
      if (matrix.weights.is_scaled()) made.scales_.insert((*made.quantized_)[position].scale);
    }
    whole.insert(whole.end(), std::make_move_iterator(std::begin(parts)), std::make_move_iterator(std::end(parts)));
  }
  made.files_.emplace(made.plan_files(options, files));
  if (const std::size_t count = made.files_->files().size(); count > file_limits::shards) {
    return error(errc::limit_exceeded, count, " files of at most ", options.max_file_bytes, " bytes, more than ",
                 file_limits::shards);
  }
  std::size_t tensors[2] = {};                          // numbers of tensors of the method and of the fallback
  std::set<std::pair<std::size_t, std::string>> names;  // per file; a tensor may have the name of a block
  for (const selected_block& block : whole) {
    const stream_sharing sharing = (block.falls_back ? fallback : method).sharing();
    for (selected_block& part :
         split_block(block, sharing, [&](const tensor_entry& tensor) { return made.file_of(tensor); })) {
      if (method.lossless() && part.size_bytes() < least_coded_bytes) {
        for (const tensor_entry* tensor : part.entries) made.selected_.erase(tensor);
        continue;
      }
      while (!names.emplace(part.file, part.name).second) part.name += '_';
      part.first = tensors[part.falls_back ? 1 : 0];
      tensors[part.falls_back ? 1 : 0] += part.entries.size();
      made.blocks_.push_back(std::move(part));
    }
  }
  if (!method.lossless()) ECQ_CHECK(made.divide_bits(options.sensitivities));
  made.list_kept();
  if (made.blocks_.empty() && !method.lossless()) return made.nothing_selected();
  return made;
}

}  // namespace ecq::detail
