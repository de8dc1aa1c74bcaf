#pragma once
/// \file
/// Definition of checkpoint_compressor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/checkpoint/checkpoint_compressor.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/file_plan.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/safetensors_dtype.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/name_outlier.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "ecq/version.hpp"

namespace ecq::detail {

ECQ_INLINE result<void> checkpoint_compressor::select(const compression_method& method,
                                                      const compression_method& fallback, const model_files* files) {
  ECQ_TRY(selected, model_selection::of(backend_, model_, options_, method, fallback, files));
  selection_.emplace(std::move(selected));
  const file_plan& plan = selection_->files();
  files_ = plan.files_of(options_.part);
  writer_of_.assign(plan.files().size(), no_writer);
  for (std::size_t index = 0; index < files_.size(); ++index) writer_of_[files_[index]] = index;
  shares_[0].method = &method;
  shares_[1].method = &fallback;
  for (const selected_block& block : selection_->blocks()) {
    share_of(block).blocks.push_back(&block);
    if (is_of_part(block.file)) part_bytes_ += block.size_bytes();
  }
  if (plan.is_original()) return {};
  // These files have no originals. Their tensors are in the model's order, as far as that keeps them aligned.
  const auto bits = [](const tensor_entry* tensor) {
    return (std::max)(find_safetensors_dtype(tensor->dtype)->bits, 8U);
  };
  for (const file_plan::file& file : plan.files()) {
    std::vector<const tensor_entry*> tensors = file.tensors;
    std::erase_if(tensors, [&](const tensor_entry* tensor) { return selection_->is_applied(*tensor); });
    std::ranges::stable_sort(tensors, std::greater(), bits);
    made_headers_.push_back(safetensors_writer::header_of(tensors, model_.metadata()));
  }
  return {};
}

ECQ_INLINE std::vector<std::filesystem::path> checkpoint_compressor::outputs() const {
  std::vector<std::filesystem::path> names;
  for (const std::size_t file : files_) names.push_back(selection_->files().files()[file].name);
  return names;
}

ECQ_INLINE result<void> checkpoint_compressor::write(std::span<const std::filesystem::path> outs) {
  const auto pass = [&](const rate_correction& correction) -> result<measured_rate> {
    const auto mine = or_out_of_memory("the codes of a block", [&] { return write_all(outs, correction); });
    ECQ_TRY(all, agree_on(options_.agree, mine));
    measured_rate measured{.weights = all.weights,
                           .at_absmax = report_.lambda == 0,
                           .pairs_are_optional = options_.goal == stream_goal::cpu};
    if (all.weights != 0) {
      measured.bits_per_weight = 8.0 * static_cast<double>(all.bytes) / static_cast<double>(all.weights);
    }
    return measured;
  };
  if (const auto met = meet_rate(shares_[0].method->target_bits(), pass); !met) {
    std::vector<const named_weights*> all;
    for (const selected_block* block : shares_[0].blocks) {
      for (const named_weights& matrix : block->matrices) all.push_back(&matrix);
    }
    return name_outlier(backend_, all, met.error());
  }
  const auto finish = [&]() -> result<void> {
    for (container_writer& writer : writers_) ECQ_CHECK(writer.finish());
    return {};
  };
  return agree_on(options_.agree, or_out_of_memory("headers", finish));
}

ECQ_INLINE result<compress_report> checkpoint_compressor::commit() {
  for (container_writer& writer : writers_) {
    ECQ_CHECK(writer.commit());
    report_.file_bytes += writer.size_bytes();
  }
  return std::move(report_);
}

ECQ_INLINE result<void> checkpoint_compressor::prepare() {
  ECQ_CHECK(check_chunk_bits(options_.chunk_bits));
  for (method_share& share : shares_) ECQ_CHECK(prepare(share));
  return {};
}

ECQ_INLINE result<void> checkpoint_compressor::prepare(method_share& share) {
  std::uint64_t total = 0;
  for (const selected_block* block : share.blocks) total += block->size_bytes();
  std::vector<std::span<const named_weights>> streams;
  std::vector<const tensor_entry*> tensors;
  for (const selected_block* block : share.blocks) {
    streams.emplace_back(block->matrices);
    tensors.insert(tensors.end(), block->entries.begin(), block->entries.end());
  }
  if (streams.empty()) return {};
  const std::string_view stage = share.method->stage();
  if (!stage.empty()) ECQ_CHECK(advance(stage, "", 0, total));
  std::uint64_t done = 0;
  const method_setting setting{.chunk_bits = options_.chunk_bits,
                               .goal = options_.goal,
                               .one_code = true,
                               .choose_coder = !options_.coder,
                               .begin = [&](std::size_t index) -> result<void> {
                                 ECQ_CHECK(advance(stage, tensors[index]->name, done, total));
                                 done += tensors[index]->size_bytes();
                                 return {};
                               },
                               .finished = [&](std::size_t index) { model_.release(*tensors[index]); }};
  ECQ_TRY(prepared, share.method->prepare(backend_, streams, setting));
  share.prepared = std::move(prepared);
  return {};
}

ECQ_INLINE container_plan checkpoint_compressor::plan(std::size_t file) const {
  container_plan planned;
  const bool is_original = selection_->files().is_original();
  planned.metadata = is_original ? model_.shards()[file].metadata() : model_.metadata();
  planned.original_header = is_original ? model_.shards()[file].header_bytes() : made_headers_[file];
  planned.tool = "ecq " ECQ_VERSION_STRING;
  planned.settings = shares_[0].method->settings();
  if (!shares_[1].blocks.empty()) planned.settings += "; some layers: " + shares_[1].method->settings();
  for (const selected_block& block : selection_->blocks()) {
    if (block.file != file) continue;
    container_plan::block& described = planned.blocks.emplace_back();
    described.name = block.name;
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      const named_weights& matrix = block.matrices[index];
      packed_matrix made;
      share_of(block).prepared->describe(block.first + index, matrix.weights, made);
      described.matrices.push_back({.name = matrix.name,
                                    .shape = matrix.shape,
                                    .lossless = made.lossless(),
                                    .zero_point = is_affine(made.format) && !made.lossless(),
                                    .table = made.format == dtype::table,
                                    .exact = made.lossless() ? 0 : matrix.weights.exact().size(),
                                    .element_type = std::string(matrix.element_type)});
    }
  }
  for (const tensor_entry* tensor : selection_->kept()) {
    if (selection_->file_of(*tensor) == file) {
      planned.pass_through.push_back({tensor->name, tensor->dtype, tensor->shape});
    }
  }
  return planned;
}

/// Writes the tensors that stay as they are: with `wide`, those whose elements are wider than a byte, otherwise all
/// others. Tensors of wide elements come before the blocks, the widest first, so that all data are aligned
/// (container_writer).
ECQ_INLINE result<void> checkpoint_compressor::pass_through(bool wide) {
  const auto bits = [](const tensor_entry* tensor) { return find_safetensors_dtype(tensor->dtype)->bits; };
  std::vector<const tensor_entry*> kept;
  for (const tensor_entry* tensor : selection_->kept()) {
    if ((bits(tensor) > 8) == wide && is_of_part(selection_->file_of(*tensor))) kept.push_back(tensor);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](const tensor_entry* left, const tensor_entry* right) { return bits(left) > bits(right); });
  for (const tensor_entry* tensor : kept) {
    container_writer& writer = writer_of(selection_->file_of(*tensor));
    ECQ_CHECK(writer.write_tensor(tensor->name, model_.bytes(*tensor),
                                  [&](std::span<const std::byte> piece) { model_.release(*tensor, piece); }));
    ++report_.passed_through;
    if (selection_->is_of_quantized(*tensor)) ++report_.of_quantized;
    if (selection_->is_left_quantized(*tensor)) ++report_.left_quantized;
    if (selection_->is_non_finite(*tensor)) ++report_.non_finite;
  }
  return {};
}

/// Returns the function that encodes streams with `coder` or, without one, with the coder that makes them smallest.
ECQ_INLINE result<encode_function> encode_function_for(std::optional<coder_id> coder) {
  encode_function found = encode_function_of<smallest_any>;
  if (coder) {
    ECQ_CHECK(with_coder(*coder, [&]<class Coder>(Coder) -> result<void> {
      found = encode_function_of<Coder>;
      return {};
    }));
  }
  return found;
}

/// Writes all files of the part, but does not finish them.
ECQ_INLINE result<part_size> checkpoint_compressor::write_all(std::span<const std::filesystem::path> outs,
                                                              const rate_correction& correction) {
  writers_.clear();
  for (std::size_t index = 0; index < outs.size(); ++index) {
    ECQ_TRY(created, container_writer::create(outs[index], plan(files_[index])));
    writers_.push_back(std::move(created));
  }
  report_ = {};
  const std::set<const tensor_entry*> kept(selection_->kept().begin(), selection_->kept().end());
  for (const auto* const patterns :
       {&options_.selection.include, &options_.selection.exclude, &options_.fallback_names}) {
    for (const std::string& pattern : *patterns) {
      bool matches = false, has_effect = patterns == &options_.selection.exclude;
      for (const tensor_entry& tensor : model_.tensors()) {
        if (!glob_match(pattern, tensor.name)) continue;
        matches = true;
        has_effect = has_effect || !(kept.contains(&tensor) || selection_->is_applied(tensor));
      }
      if (!matches) report_.unmatched.push_back(pattern);
      if (matches && !has_effect) report_.without_effect.push_back(pattern);
    }
  }
  if (options_.part.count == 1) {
    report_.input_bytes = model_.size_bytes();
  } else {
    for (const std::size_t file : files_) {
      for (const tensor_entry* tensor : selection_->files().files()[file].tensors) {
        report_.input_bytes += tensor->size_bytes();
      }
    }
  }
  report_.lambda = shares_[0].blocks.empty() ? 0 : shares_[0].prepared->lambda(correction);
  ++attempt_;
  return write_blocks(correction);
}

ECQ_INLINE result<part_size> checkpoint_compressor::write_blocks(const rate_correction& correction) {
  const std::string stage = attempt_ == 1 ? "compressing" : text_of("compressing, pass ", attempt_);
  ECQ_CHECK(advance(stage, "tensors that stay", 0, part_bytes_));
  ECQ_CHECK(pass_through(true));
  std::uint64_t done = 0;
  histogram all;
  part_size written;  // by the method; the fallback has no rate to meet
  for (const selected_block& block : selection_->blocks()) {
    if (!is_of_part(block.file)) continue;
    ECQ_CHECK(advance(stage, block.name, done, part_bytes_));
    ECQ_TRY(size, write_block(block, correction, all));
    done += block.size_bytes();
    if (block.falls_back) continue;
    written.bytes += size.bytes;
    written.weights += size.weights;
  }
  ECQ_CHECK(pass_through(false));
  report_.joint_entropy = entropy_of(all);
  ECQ_CHECK(advance(stage, "", done, part_bytes_));
  return written;
}

ECQ_INLINE result<part_size> checkpoint_compressor::write_block(const selected_block& block,
                                                                const rate_correction& correction, histogram& all) {
  const prepared_method& prepared = *share_of(block).prepared;
  const auto coder = prepared.coder();
  ECQ_TRY(encode, encode_function_for(coder ? coder : options_.coder));
  std::vector<histogram> counts;
  const auto count = [&](std::size_t index, const packed_matrix& matrix,
                         std::span<const std::byte> elements) -> result<void> {
    const std::span codes(reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size());
    ECQ_TRY(counted, matrix.codes_exponents() ? count_exponents(backend_, matrix.format, elements)
                                              : count_codes(backend_, codes));
    counts.push_back(counted);
    all += counted;
    // Elements that were not copied lie in the mapped file until they are coded.
    if (elements.data() != block.matrices[index].weights.data()) model_.release(*block.entries[index]);
    return {};
  };
  const rate_correction none(0);
  ECQ_TRY(packed, pack_block(backend_, prepared, block.first, block.falls_back ? none : correction, block.matrices,
                             {.chunk_bits = options_.chunk_bits,
                              .margin = options_.goal == stream_goal::size ? 0U : 20U,
                              .goal = options_.goal},
                             encode, count));
  for (const tensor_entry* tensor : block.entries) model_.release(*tensor);
  ECQ_CHECK(writer_of(block.file).write_block(block.name, packed));
  report_.add_block(block.name, packed, counts);
  if (block.falls_back) report_.by_fallback += block.entries.size();
  for (const packed_matrix& matrix : packed.matrices) report_.exact += matrix.exact.size();
  report_.unpacked += static_cast<std::size_t>(
      std::ranges::count_if(block.matrices, [](const named_weights& each) { return each.weights.is_scaled(); }));
  return part_size{packed.size_bytes(), packed.weights()};
}

}  // namespace ecq::detail
