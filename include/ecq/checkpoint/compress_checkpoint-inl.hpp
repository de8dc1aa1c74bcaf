#pragma once
/// \file
/// Definition of the compression of checkpoints.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/model_config.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/name_outlier.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "ecq/version.hpp"

namespace ecq {

namespace detail {

/// The tensors that one method compresses.
struct method_share {
  const compression_method* method;
  std::vector<const selected_block*> blocks{};
  std::unique_ptr<const prepared_method> prepared{};
};

/// One run of compress_checkpoint.
class checkpoint_compressor {
 public:
  checkpoint_compressor(const cpu& backend, const checkpoint& model, const compress_options& options,
                        const progress_callback& report_progress)
      : backend_(backend), model_(model), options_(options), report_progress_(report_progress) {}

  /// Chooses what to compress, and prepares the methods. With `part`, files of the part get containers of their own.
  result<void> prepare(const compression_method& method, const compression_method& fallback,
                       const std::optional<folder_part>& part) {
    part_ = part;
    ECQ_TRY(selected, model_selection::of(backend_, model_, options_, method, fallback, part));
    selection_.emplace(std::move(selected));
    shares_[0].method = &method;
    shares_[1].method = &fallback;
    for (const selected_block& block : selection_->blocks()) share_of(block).blocks.push_back(&block);
    for (method_share& share : shares_) ECQ_CHECK(prepare(share));
    return {};
  }

  /// Writes the container, or the containers of the part, in the order of the model's files; after prepare().
  result<compress_report> run(std::span<const std::filesystem::path> outs) {
    std::vector<container_writer> writers;
    compress_report report;
    int attempt = 0;
    const auto pass = [&](const rate_correction& correction) -> result<measured_rate> {
      writers.clear();
      for (std::size_t index = 0; index < outs.size(); ++index) {
        ECQ_TRY(created, container_writer::create(outs[index], plan(index)));
        writers.push_back(std::move(created));
      }
      measured_rate measured;
      ECQ_TRY(made, write(writers, correction, ++attempt, measured));
      report = std::move(made);
      return measured;
    };
    if (const auto met = meet_rate(shares_[0].method->target_bits(), pass); !met) {
      std::vector<const named_weights*> all;
      for (const selected_block* block : shares_[0].blocks) {
        for (const named_weights& matrix : block->matrices) all.push_back(&matrix);
      }
      return name_outlier(backend_, all, met.error());
    }
    for (container_writer& writer : writers) {
      ECQ_CHECK(writer.commit());
      report.file_bytes += writer.size_bytes();
    }
    return report;
  }

  const model_selection& selection() const { return *selection_; }

  double lambda() const { return shares_[0].prepared == nullptr ? 0 : shares_[0].prepared->lambda(rate_correction(0)); }

 private:
  result<void> prepare(method_share& share);
  container_plan plan(std::size_t output) const;
  result<compress_report> write(std::span<container_writer> writers, const rate_correction& correction, int attempt,
                                measured_rate& measured) const;
  result<void> pass_through(std::span<container_writer> writers, bool wide) const;
  std::size_t output_of(std::size_t shard) const { return part_ ? shard / part_->count : 0; }

  method_share& share_of(const selected_block& block) { return shares_[block.falls_back ? 1 : 0]; }
  const method_share& share_of(const selected_block& block) const { return shares_[block.falls_back ? 1 : 0]; }

  result<void> advance(std::string_view stage, std::string_view current, std::uint64_t done) const {
    if (!report_progress_ || report_progress_({stage, current, done, selection_->selected_bytes()})) return {};
    return error(errc::invalid_argument, "interrupted");
  }

  cpu backend_;
  const checkpoint& model_;
  const compress_options& options_;
  const progress_callback& report_progress_;
  std::optional<const model_selection> selection_;
  std::optional<folder_part> part_;
  method_share shares_[2] = {};  ///< of the method and of its fallback
};

ECQ_INLINE result<void> checkpoint_compressor::prepare(method_share& share) {
  std::vector<std::span<const named_weights>> streams;
  std::vector<const tensor_entry*> tensors;
  for (const selected_block* block : share.blocks) {
    streams.emplace_back(block->matrices);
    tensors.insert(tensors.end(), block->entries.begin(), block->entries.end());
  }
  if (streams.empty()) return {};
  const std::string_view stage = share.method->stage();
  if (!stage.empty()) ECQ_CHECK(advance(stage, "", 0));
  std::uint64_t done = 0;
  const method_setting setting{.chunk_bits = options_.chunk_bits,
                               .one_code = true,
                               .choose_coder = !options_.coder,
                               .begin = [&](std::size_t index) -> result<void> {
                                 ECQ_CHECK(advance(stage, tensors[index]->name, done));
                                 done += tensors[index]->size_bytes();
                                 return {};
                               },
                               .finished = [&](std::size_t index) { model_.release(*tensors[index]); }};
  ECQ_TRY(prepared, share.method->prepare(backend_, streams, setting));
  share.prepared = std::move(prepared);
  return {};
}

ECQ_INLINE container_plan checkpoint_compressor::plan(std::size_t output) const {
  container_plan planned;
  const std::size_t shard = part_ ? output * part_->count + part_->index : 0;
  const bool of_one_file = part_ || model_.shards().size() == 1;
  planned.metadata = of_one_file ? model_.shards()[shard].metadata() : model_.metadata();
  if (of_one_file) planned.original_header = model_.shards()[shard].header_bytes();
  planned.tool = "ecq " ECQ_VERSION_STRING;
  planned.settings = shares_[0].method->settings();
  if (!shares_[1].blocks.empty()) planned.settings += "; some layers: " + shares_[1].method->settings();
  for (const selected_block& block : selection_->blocks()) {
    if (output_of(block.shard) != output) continue;
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
                                    .element_type = std::string(matrix.element_type)});
    }
  }
  for (const tensor_entry* tensor : selection_->kept()) {
    if (output_of(tensor->shard) == output)
      planned.pass_through.push_back({tensor->name, tensor->dtype, tensor->shape});
  }
  return planned;
}

/// Writes the tensors that stay as they are and whose elements are wider than a byte, or all others. What has wide
/// elements comes before the blocks, the widest first, so that all data are aligned (container_writer).
ECQ_INLINE result<void> checkpoint_compressor::pass_through(std::span<container_writer> writers, bool wide) const {
  const auto bits = [](const tensor_entry* tensor) { return find_safetensors_dtype(tensor->dtype)->bits; };
  std::vector<const tensor_entry*> kept;
  for (const tensor_entry* tensor : selection_->kept()) {
    if ((bits(tensor) > 8) == wide) kept.push_back(tensor);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](const tensor_entry* left, const tensor_entry* right) { return bits(left) > bits(right); });
  for (const tensor_entry* tensor : kept) {
    container_writer& writer = writers[output_of(tensor->shard)];
    ECQ_CHECK(writer.write_tensor(tensor->name, model_.bytes(*tensor),
                                  [&](std::span<const std::byte> piece) { model_.release(*tensor, piece); }));
  }
  return {};
}

/// The function that encodes streams with `coder` or, without one, with whichever makes them smallest.
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

ECQ_INLINE result<compress_report> checkpoint_compressor::write(std::span<container_writer> writers,
                                                                const rate_correction& correction, int attempt,
                                                                measured_rate& measured) const {
  compress_report report;
  report.input_bytes = model_.size_bytes();
  report.passed_through = selection_->kept().size();
  report.unpacked = selection_->unpacked();
  report.of_quantized = selection_->of_quantized();
  const bool has_main = !shares_[0].blocks.empty();
  report.lambda = has_main ? shares_[0].prepared->lambda(correction) : 0;
  const std::string stage = attempt == 1 ? "compressing" : text_of("compressing, pass ", attempt);
  ECQ_CHECK(advance(stage, "tensors that stay", 0));
  ECQ_CHECK(pass_through(writers, true));
  std::uint64_t done = 0;
  histogram all;
  const rate_correction none(0);
  std::uint64_t bytes = 0;  // of the method's blocks, which are those to meet a rate
  for (const selected_block& block : selection_->blocks()) {
    ECQ_CHECK(advance(stage, block.name, done));
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
      // Elements that are not copied lie in the file itself until they are coded.
      if (elements.data() != block.matrices[index].weights.data()) model_.release(*block.entries[index]);
      return {};
    };
    const rate_correction& corrected = block.falls_back ? none : correction;
    ECQ_TRY(packed, pack_block(backend_, prepared, block.first, corrected, block.matrices,
                               {.chunk_bits = options_.chunk_bits,
                                .margin = options_.goal == stream_goal::size ? 0U : 20U,
                                .goal = options_.goal},
                               encode, count));
    for (const tensor_entry* tensor : block.entries) {
      model_.release(*tensor);
      done += tensor->size_bytes();
    }
    ECQ_CHECK(writers[output_of(block.shard)].write_block(block.name, packed));
    report.add_block(block.name, packed, counts);
    if (block.falls_back) {
      report.by_fallback += block.entries.size();
    } else {
      bytes += packed.size_bytes();
      measured.weights += packed.weights();
    }
  }
  if (measured.weights != 0) {
    measured.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(measured.weights);
  }
  measured.at_absmax = report.lambda == 0;
  ECQ_CHECK(pass_through(writers, false));
  report.joint_entropy = entropy_of(all);
  ECQ_CHECK(advance(stage, "", done));
  return report;
}

/// Copies all files but the shards. Scales that were applied leave the index, and quantization_config leaves
/// config.json.
ECQ_INLINE result<void> write_others(const model_files& files, const std::filesystem::path& out,
                                     const checkpoint& model, const model_selection& selection) {
  if (selection.unpacked() == 0) return copy_others(files, out);
  model_files copied = files;
  copied.index.clear();
  std::erase(copied.others, "config.json");
  ECQ_CHECK(copy_others(copied, out));
  ECQ_CHECK(copy_without_quantization_config(files.folder, out));
  if (files.index.empty()) return {};
  std::string text = "{\"weight_map\":{";
  std::string_view separator;
  for (const tensor_entry& tensor : model.tensors()) {
    if (selection.is_applied(tensor)) continue;
    text += std::exchange(separator, ",");
    append_json_string(text, tensor.name);
    text += ':';
    append_json_string(text, files.shards[tensor.shard].string());
  }
  text += "}}\n";
  ECQ_TRY(index, output_file::create(out / files.index));
  ECQ_CHECK(index.append(std::as_bytes(std::span(text))));
  return index.commit();
}

/// The model at `in`, unless it is compressed already.
ECQ_INLINE result<checkpoint> open_plain(const std::filesystem::path& in) {
  ECQ_TRY(model, checkpoint::open(in));
  for (const safetensors_file& shard : model.shards()) {
    if (is_container(shard)) return error(errc::invalid_argument, quoted(in), ": it is compressed already");
  }
  return std::move(model);
}

/// The methods of the options.
struct chosen_methods {
  std::shared_ptr<const compression_method> method, fallback;

  static result<chosen_methods> of(const compress_options& options) {
    ECQ_TRY(method, options.method.get());
    ECQ_TRY(fallback, options.fallback.get());
    if (!options.fallback_names.empty() && method->lossless() != fallback->lossless()) {
      return error(errc::invalid_argument, "a fallback with loss of a method without, or the other way round");
    }
    return chosen_methods{std::move(method), std::move(fallback)};
  }
};

}  // namespace detail

ECQ_INLINE result<compress_report> compress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                       const std::filesystem::path& out,
                                                       const compress_options& options,
                                                       const progress_callback& report_progress) {
  try {
    ECQ_TRY(methods, detail::chosen_methods::of(options));
    ECQ_TRY(model, detail::open_plain(in));
    ECQ_CHECK(refuse_to_overwrite(out, model.files()));
    detail::checkpoint_compressor compressor(backend, model, options, report_progress);
    ECQ_CHECK(compressor.prepare(*methods.method, *methods.fallback, std::nullopt));
    return compressor.run({&out, 1});
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the codes of a block");
  }
}

ECQ_INLINE result<compress_report> compress_folder(const cpu& backend, const std::filesystem::path& in,
                                                   const std::filesystem::path& out, const compress_options& options,
                                                   const progress_callback& report_progress) {
  try {
    ECQ_TRY(methods, detail::chosen_methods::of(options));
    ECQ_TRY(files, model_files::of(in));
    ECQ_CHECK(check_apart(files.folder, out));
    const folder_part& part = options.part;
    if (part.index >= part.count || (part.count > 1 && methods.method->target_bits())) {
      return error(errc::invalid_argument, "part ", part.index, " of ", part.count,
                   ": a part is one of its number, and is compressed at a lambda");
    }
    ECQ_TRY(model, detail::open_plain(in));
    std::vector<std::filesystem::path> outs;
    for (std::size_t shard = part.index; shard < files.shards.size(); shard += part.count) {
      outs.push_back(out / files.shards[shard]);
      ECQ_CHECK(refuse_to_overwrite(outs.back(), model.files()));
    }
    detail::checkpoint_compressor compressor(backend, model, options, report_progress);
    ECQ_CHECK(compressor.prepare(*methods.method, *methods.fallback, part));
    for (const auto& file : outs) ECQ_CHECK(create_folder(file.parent_path()));
    ECQ_TRY(report, compressor.run(outs));
    if (part.index == 0) ECQ_CHECK(detail::write_others(files, out, model, compressor.selection()));
    return report;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the codes of a block");
  }
}

ECQ_INLINE result<double> find_lambda_of(const cpu& backend, const std::filesystem::path& in,
                                         const compress_options& options, const progress_callback& report_progress) {
  try {
    ECQ_TRY(methods, detail::chosen_methods::of(options));
    ECQ_TRY(model, detail::open_plain(in));
    detail::checkpoint_compressor compressor(backend, model, options, report_progress);
    ECQ_CHECK(compressor.prepare(*methods.method, *methods.fallback, std::nullopt));
    return compressor.lambda();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for a sample of the weights");
  }
}

}  // namespace ecq
