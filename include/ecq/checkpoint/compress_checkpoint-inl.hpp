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
#include <set>
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
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/name_outlier.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "ecq/version.hpp"

namespace ecq {

namespace detail {

/// The tensors that share a stream.
struct selected_block {
  std::string name;
  std::vector<named_weights> matrices{};
  std::vector<const tensor_entry*> entries{};
  std::size_t first = 0;  ///< number of the first one among the tensors of all blocks

  void add(const tensor_entry& tensor, const weights_view& weights) {
    matrices.push_back({tensor.name, weights, tensor.shape});
    entries.push_back(&tensor);
  }
};

/// One run of compress_checkpoint.
class checkpoint_compressor {
 public:
  checkpoint_compressor(const cpu& backend, const checkpoint& model, const compress_options& options,
                        const compression_method& method, const progress_callback& report_progress)
      : backend_(backend), model_(model), options_(options), method_(method), report_progress_(report_progress) {}

  result<compress_report> run(const std::filesystem::path& out) {
    ECQ_CHECK(select());
    ECQ_CHECK(prepare());
    std::optional<container_writer> writer;
    compress_report report;
    int attempt = 0;
    const auto pass = [&](const rate_correction& correction) -> result<measured_rate> {
      ECQ_TRY(created, container_writer::create(out, plan()));
      writer.emplace(std::move(created));
      ECQ_TRY(made, write(*writer, correction, ++attempt));
      report = std::move(made);
      return measured_rate{report.bits_per_weight, report.weights, report.lambda == 0};
    };
    if (const auto met = meet_rate(method_.target_bits(), pass); !met) {
      std::vector<const named_weights*> all;
      for (const selected_block& block : blocks_) {
        for (const named_weights& matrix : block.matrices) all.push_back(&matrix);
      }
      return name_outlier(backend_, all, met.error());
    }
    ECQ_CHECK(writer->commit());
    report.file_bytes = writer->size_bytes();
    return report;
  }

 private:
  result<void> select();
  result<void> prepare();
  container_plan plan() const;
  result<compress_report> write(container_writer& writer, const rate_correction& correction, int attempt) const;
  result<void> pass_through(container_writer& writer) const;

  bool is_selected(const tensor_entry& tensor) const { return selected_.contains(&tensor); }

  result<void> advance(std::string_view stage, std::string_view current, std::uint64_t done) const {
    if (!report_progress_ || report_progress_({stage, current, done, selected_bytes_})) return {};
    return error(errc::invalid_argument, "interrupted");
  }

  cpu backend_;
  const checkpoint& model_;
  const compress_options& options_;
  const compression_method& method_;
  const progress_callback& report_progress_;
  std::vector<selected_block> blocks_;
  std::unique_ptr<const prepared_method> prepared_;
  std::set<const tensor_entry*> selected_;
  std::uint64_t selected_bytes_ = 0;
};

/// The streams of `block`, in the order of their first tensors.
ECQ_INLINE std::vector<selected_block> split_block(const selected_block& block, stream_sharing sharing) {
  std::vector<selected_block> parts;
  for (std::size_t index = 0; index < block.matrices.size(); ++index) {
    const named_weights& matrix = block.matrices[index];
    std::string name = block.name;
    if (sharing == stream_sharing::matrix) name = matrix.name;
    if (sharing == stream_sharing::format) name += "." + std::string(to_string(matrix.weights.type()));
    auto part = std::find_if(parts.begin(), parts.end(), [&](const selected_block& each) { return each.name == name; });
    if (part == parts.end()) part = parts.insert(part, {.name = name});
    part->add(*block.entries[index], matrix.weights);
  }
  return parts;
}

ECQ_INLINE result<void> checkpoint_compressor::select() {
  std::vector<tensor_summary> summaries;
  for (const tensor_entry& tensor : model_.tensors()) {
    summaries.push_back({tensor.name, dtype_from_safetensors(tensor.dtype), tensor.shape});
  }
  tensor_selection rules = options_.selection;
  rules.embeddings = rules.embeddings || method_.lossless();
  ECQ_TRY(chosen, select_tensors(rules, summaries));
  std::size_t tensors = 0;
  for (const tensor_block& block : chosen) {
    selected_block kept{.name = block.name};
    for (const std::size_t position : block.tensors) {
      const tensor_entry& tensor = model_.tensors()[position];
      ECQ_TRY(weights, as_weights(tensor, model_.bytes(tensor)));
      if (options_.keep_non_finite && !method_.lossless()) {
        const auto finite = check_finite(backend_, weights);
        model_.release(tensor);
        if (!finite && finite.error().code() == errc::non_finite) continue;
        ECQ_CHECK(finite);
      }
      kept.add(tensor, weights);
      selected_.insert(&tensor);
      selected_bytes_ += tensor.size_bytes();
    }
    for (selected_block& part : split_block(kept, method_.sharing())) {
      part.first = tensors;
      tensors += part.entries.size();
      blocks_.push_back(std::move(part));
    }
  }
  if (blocks_.empty()) {
    return error(errc::invalid_argument, "none of ", model_.tensors().size(),
                 " tensors is selected: weights have two dimensions or more, and "
                 "embeddings have to be included by name");
  }
  return {};
}

ECQ_INLINE result<void> checkpoint_compressor::prepare() {
  std::vector<std::span<const named_weights>> streams;
  std::vector<const tensor_entry*> tensors;
  for (const selected_block& block : blocks_) {
    streams.emplace_back(block.matrices);
    tensors.insert(tensors.end(), block.entries.begin(), block.entries.end());
  }
  const std::string_view stage = method_.stage();
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
  ECQ_TRY(prepared, method_.prepare(backend_, streams, setting));
  prepared_ = std::move(prepared);
  return {};
}

ECQ_INLINE container_plan checkpoint_compressor::plan() const {
  container_plan planned;
  planned.metadata = model_.metadata();
  planned.tool = "ecq " ECQ_VERSION_STRING;
  planned.settings = method_.settings();
  for (const selected_block& block : blocks_) {
    container_plan::block& described = planned.blocks.emplace_back();
    described.name = block.name;
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      const named_weights& matrix = block.matrices[index];
      packed_matrix made;
      prepared_->describe(block.first + index, matrix.weights, made);
      described.matrices.push_back(
          {matrix.name, matrix.shape, made.lossless(), is_affine(made.format), made.format == dtype::table});
    }
  }
  for (const tensor_entry& tensor : model_.tensors()) {
    if (!is_selected(tensor)) planned.pass_through.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return planned;
}

/// Tensors of wide elements come first, so that all data are aligned (container_writer).
ECQ_INLINE result<void> checkpoint_compressor::pass_through(container_writer& writer) const {
  std::vector<const tensor_entry*> kept;
  for (const tensor_entry& tensor : model_.tensors()) {
    if (!is_selected(tensor)) kept.push_back(&tensor);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const tensor_entry* left, const tensor_entry* right) {
    return find_safetensors_dtype(left->dtype)->bits > find_safetensors_dtype(right->dtype)->bits;
  });
  for (const tensor_entry* tensor : kept) {
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

ECQ_INLINE result<compress_report> checkpoint_compressor::write(container_writer& writer,
                                                                const rate_correction& correction, int attempt) const {
  const auto chosen = prepared_->coder();
  ECQ_TRY(encode, encode_function_for(chosen ? chosen : options_.coder));
  compress_report report;
  report.input_bytes = model_.size_bytes();
  report.passed_through = model_.tensors().size() - selected_.size();
  report.lambda = prepared_->lambda(correction);
  const std::string stage = attempt == 1 ? "compressing" : text_of("compressing, pass ", attempt);
  ECQ_CHECK(advance(stage, "tensors that stay", 0));
  ECQ_CHECK(pass_through(writer));
  std::uint64_t done = 0;
  histogram all;
  for (const selected_block& block : blocks_) {
    ECQ_CHECK(advance(stage, block.name, done));
    std::vector<histogram> counts;
    const auto count = [&](std::size_t index, const packed_matrix& matrix,
                           std::span<const std::byte> elements) -> result<void> {
      const std::span codes(reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size());
      ECQ_TRY(counted,
              matrix.lossless() ? count_exponents(backend_, matrix.format, elements) : count_codes(backend_, codes));
      counts.push_back(counted);
      all += counted;
      // Elements that are not copied lie in the file itself until they are coded.
      if (elements.data() != block.matrices[index].weights.data()) model_.release(*block.entries[index]);
      return {};
    };
    ECQ_TRY(packed, pack_block(backend_, *prepared_, block.first, correction, block.matrices,
                               {.chunk_bits = options_.chunk_bits}, encode, count));
    for (const tensor_entry* tensor : block.entries) {
      model_.release(*tensor);
      done += tensor->size_bytes();
    }
    ECQ_CHECK(writer.write_block(block.name, packed));
    report.add_block(block.name, packed, counts);
  }
  report.joint_entropy = entropy_of(all);
  ECQ_CHECK(advance(stage, "", done));
  return report;
}

}  // namespace detail

ECQ_INLINE result<compress_report> compress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                       const std::filesystem::path& out,
                                                       const compress_options& options,
                                                       const progress_callback& report_progress) {
  try {
    ECQ_TRY(method, options.method.get());
    ECQ_TRY(model, checkpoint::open(in));
    if (model.shards().size() == 1 && is_container(model.shards().front())) {
      return error(errc::invalid_argument, detail::quoted(in), ": it is compressed already");
    }
    return detail::checkpoint_compressor(backend, model, options, *method, report_progress).run(out);
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the codes of a block");
  }
}

}  // namespace ecq
