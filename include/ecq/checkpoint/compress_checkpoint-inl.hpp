#pragma once
/// \file
/// Definition of the compression of checkpoints.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/kept_threads.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/checkpoint/checkpoint_compressor.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/file_plan.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/replaced_weights.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/model_config.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/methods/method.hpp"

namespace ecq {

namespace detail {

/// Writes an index of the plan's files. Tools read from it the size of all tensors, which is the size after decoding:
/// weights that were quantised before then have two bytes each.
ECQ_INLINE result<output_file> write_index(const model_selection& selection, const std::filesystem::path& out) {
  std::uint64_t total = 0;
  for (const tensor_entry* tensor : selection.kept()) total += tensor->size_bytes();
  for (const selected_block& block : selection.blocks()) {
    for (std::size_t index = 0; index < block.entries.size(); ++index) {
      const weights_view& weights = block.matrices[index].weights;
      total += weights.is_scaled() ? std::uint64_t{weights.size()} * 2 : block.entries[index]->size_bytes();
    }
  }
  std::string map;
  for (const file_plan::file& file : selection.files().files()) {
    for (const tensor_entry* tensor : file.tensors) {
      if (selection.is_applied(*tensor)) continue;
      if (!map.empty()) map += ',';
      append_json_string(map, tensor->name);
      map += ':';
      append_json_string(map, file.name.string());
    }
  }
  const std::string text = text_of("{\"metadata\":{\"total_size\":", total, "},\"weight_map\":{", map, "}}\n");
  ECQ_TRY(index, output_file::create(out / selection.files().index()));
  ECQ_CHECK(index.append(std::as_bytes(std::span(text))));
  ECQ_CHECK(index.flush());
  return std::move(index);
}

/// Whether each file has the same tensors as in the model, so that the model's index still fits.
ECQ_INLINE bool has_same_tensors(const model_selection& selection) {
  return selection.files().is_original() && !selection.has_unpacked();
}

/// Returns the names of all files that are written, including those of other parts.
ECQ_INLINE std::vector<std::filesystem::path> names_written(const model_files& files,
                                                            const model_selection& selection) {
  std::vector<std::filesystem::path> names = files.others;
  for (const file_plan::file& file : selection.files().files()) names.push_back(file.name);
  const auto& index = has_same_tensors(selection) ? files.index : selection.files().index();
  if (!index.empty()) names.push_back(index);
  return names;
}

ECQ_INLINE result<std::string> marked_as_unpacked(std::string_view config) {
  ECQ_TRY(plain, without_quantization_config(config));
  return marked_as_compressed(plain);
}

/// Writes all files except the shards, the index last; they have their names once they are committed. Makes a new index
/// if tensors are in other files or gone. Scales that were applied are gone: they leave the index, and their
/// description leaves config.json.
ECQ_INLINE result<std::vector<output_file>> write_others(const model_files& files, const std::filesystem::path& out,
                                                         const model_selection& selection) {
  model_files copied = files;
  const bool same_tensors = has_same_tensors(selection);
  if (!same_tensors) copied.index.clear();
  ECQ_TRY(written, copies_of_others(copied, out, selection.has_unpacked() ? marked_as_unpacked : marked_as_compressed));
  if (same_tensors || selection.files().index().empty()) return std::move(written);
  ECQ_TRY(index, write_index(selection, out));
  written.push_back(std::move(index));
  return std::move(written);
}

/// The methods that the options name.
struct chosen_methods {
  std::shared_ptr<const compression_method> method, fallback;

  static result<chosen_methods> of(const compress_options& options) {
    ECQ_TRY(method, options.method.get());
    ECQ_TRY(fallback, options.fallback.get());
    if (!options.fallback_names.empty() && method->lossless() != fallback->lossless()) {
      return error(errc::invalid_argument, "method and fallback must both be lossless, or neither of them");
    }
    return chosen_methods{std::move(method), std::move(fallback)};
  }
};

/// One run of compress_folder. Its steps do not throw, because processes that work together agree after each of them.
class folder_compression {
 public:
  folder_compression(const cpu& backend, const std::filesystem::path& in, const std::filesystem::path& out,
                     const compress_options& options, const progress_callback& report_progress)
      : backend_(backend), in_(in), out_(out), options_(options), report_progress_(report_progress) {}

  result<compress_report> run() {
    ECQ_CHECK(agree_on(options_.agree, or_out_of_memory("a sample of the weights", [&] { return prepare(); })));
    ECQ_CHECK(compressor_->write(outs_));
    auto others = or_out_of_memory("an index", [&]() -> result<std::vector<output_file>> {
      if (options_.part.index != 0) return std::vector<output_file>();
      return write_others(*files_, out_, compressor_->selection());
    });
    ECQ_CHECK(agree_on(options_.agree, others ? result<void>() : result<void>(others.error())));
    const finishing_output finishing;  // all files get their names together
    auto report = or_out_of_memory("a report", [&] { return compressor_->commit(); });
    ECQ_CHECK(agree_on(options_.agree, report ? result<void>() : result<void>(report.error())));
    const auto finish = [&]() -> result<void> {
      for (output_file& other : *others) ECQ_CHECK(other.commit());
      return {};
    };
    ECQ_CHECK(agree_on(options_.agree, or_out_of_memory("the names of files", finish)));
    return report;
  }

 private:
  result<void> prepare() {
    ECQ_TRY(methods, chosen_methods::of(options_));
    methods_ = std::move(methods);
    ECQ_TRY(model, open_plain(in_));
    model_.emplace(std::move(model));
    ECQ_TRY(files, model_files::with_others(in_));
    files_.emplace(std::move(files));
    ECQ_CHECK(check_apart(files_->folder, out_));
    const folder_part& part = options_.part;
    if (part.index >= part.count || (part.count > 1 && methods_.method->target_bits() && !options_.agree)) {
      return error(errc::invalid_argument, "part ", part.index, " of ", part.count,
                   part.index >= part.count
                       ? ": parts are counted from 0"
                       : ": a part alone cannot meet a rate; give it a lambda (ecq lambda finds it)");
    }
    compressor_.emplace(threads_.emplace(backend_).backend(), *model_, options_, report_progress_);
    ECQ_CHECK(compressor_->select(*methods_.method, *methods_.fallback, &*files_));
    for (const auto& name : compressor_->outputs()) outs_.push_back(out_ / name);
    std::vector<std::filesystem::path> inputs = model_->inputs();
    for (const auto& other : files_->others) inputs.push_back(files_->folder / other);
    inputs.insert(inputs.end(), options_.other_inputs.begin(), options_.other_inputs.end());
    ECQ_CHECK(check_output_folder(out_, names_written(*files_, compressor_->selection()), inputs));
    const tensor_names names = names_in(*model_);
    for (const auto& file : outs_) ECQ_CHECK(check_replaced(file, true, names));
    ECQ_CHECK(compressor_->prepare());
    ECQ_TRY(folder, output_folder::create(out_));
    folder_.emplace(std::move(folder));
    for (const auto& file : outs_) ECQ_CHECK(create_folder(file.parent_path()));
    return {};
  }

  cpu backend_;
  const std::filesystem::path& in_;
  const std::filesystem::path& out_;
  const compress_options& options_;
  const progress_callback& report_progress_;
  chosen_methods methods_{};
  std::optional<model_files> files_;
  std::optional<output_folder> folder_;
  std::optional<checkpoint> model_;
  std::optional<kept_threads> threads_;
  std::optional<checkpoint_compressor> compressor_;
  std::vector<std::filesystem::path> outs_;
};

}  // namespace detail

ECQ_INLINE result<compress_report> compress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                       const std::filesystem::path& out,
                                                       const compress_options& options,
                                                       const progress_callback& report_progress) {
  return detail::or_out_of_memory("the codes of a block", [&]() -> result<compress_report> {
    ECQ_TRY(methods, detail::chosen_methods::of(options));
    ECQ_TRY(model, open_plain(in));
    ECQ_CHECK(refuse_to_overwrite(out, model.inputs()));
    ECQ_CHECK(refuse_to_overwrite(out, options.other_inputs));
    const detail::kept_threads threads(backend);
    compress_options alone = options;
    alone.part = {};
    alone.agree = {};
    detail::checkpoint_compressor compressor(threads.backend(), model, alone, report_progress);
    ECQ_CHECK(compressor.select(*methods.method, *methods.fallback, nullptr));
    ECQ_CHECK(compressor.prepare());
    ECQ_CHECK(compressor.write({&out, 1}));
    const finishing_output finishing;
    return compressor.commit();
  });
}

ECQ_INLINE result<compress_report> compress_folder(const cpu& backend, const std::filesystem::path& in,
                                                   const std::filesystem::path& out, const compress_options& options,
                                                   const progress_callback& report_progress) {
  return detail::folder_compression(backend, in, out, options, report_progress).run();
}

ECQ_INLINE result<double> find_lambda_of(const cpu& backend, const std::filesystem::path& in,
                                         const compress_options& options, const progress_callback& report_progress) {
  return detail::or_out_of_memory("a sample of the weights", [&]() -> result<double> {
    ECQ_TRY(methods, detail::chosen_methods::of(options));
    ECQ_TRY(model, open_plain(in));
    ECQ_TRY(files, model_files::of(in));
    const detail::kept_threads threads(backend);
    compress_options whole = options;
    whole.part = {};
    detail::checkpoint_compressor compressor(threads.backend(), model, whole, report_progress);
    ECQ_CHECK(compressor.select(*methods.method, *methods.fallback, &files));
    ECQ_CHECK(compressor.prepare());
    return compressor.lambda();
  });
}

}  // namespace ecq
