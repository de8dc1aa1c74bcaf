#pragma once
/// \file
/// Compression of checkpoints, defined.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
#include "ecq/checkpoint/lambda_search.hpp"
#include "ecq/checkpoint/model_code.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/lossless.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/version.hpp"

namespace ecq {

namespace detail {

/// One run of compress_checkpoint.
class checkpoint_compressor {
 public:
  checkpoint_compressor(const cpu& backend, const checkpoint& model, const compress_options& options,
                        const progress_callback& report_progress)
      : backend_(backend), model_(model), options_(options), report_progress_(report_progress) {}

  result<compress_report> run(const std::filesystem::path& out) {
    ECQ_CHECK(select());
    if (options_.lambda) set_lambdas(blocks_, *options_.lambda);
    if (options_.bits_per_weight) {
      ECQ_CHECK(advance("searching lambda", "", 0));
      ECQ_CHECK(search_lambdas(backend_, model_, options_, blocks_));
    }
    if (options_.entrollm) ECQ_CHECK(find_model_code());
    correction_ = rate_correction(options_.bits_per_weight.value_or(0));
    for (int attempt = 1;; ++attempt) {
      ECQ_TRY(writer, container_writer::create(out, plan()));
      ECQ_TRY(report, write(writer, attempt));
      if (options_.bits_per_weight) {
        if (correction_.again(report.bits_per_weight, report.lambda == 0)) continue;
        ECQ_CHECK(correction_.check(report.weights));
      }
      ECQ_CHECK(writer.commit());
      report.file_bytes = writer.size_bytes();
      return std::move(report);
    }
  }

 private:
  result<void> select();
  result<void> find_model_code();
  container_plan plan() const;
  result<compress_report> write(container_writer& writer, int attempt) const;
  result<packed_block> compress(const selected_block& block, std::vector<histogram>& counts) const;
  result<packed_block> compress_lossless(const selected_block& block, std::vector<histogram>& counts) const;
  result<void> pass_through(container_writer& writer) const;

  result<weights_view> weights_of(const tensor_entry& tensor) const { return as_weights(tensor, model_.bytes(tensor)); }

  /// Calls `use(Coder{})` with what is to encode streams.
  template <class Use>
  result<void> with_stream_coder(Use&& use) const {
    const std::optional<coder_id> coder = model_code_ ? model_code_->coder : options_.coder;
    return coder ? with_coder(*coder, use) : use(smallest_any{});
  }

  bool is_selected(const tensor_entry& tensor) const { return selected_.contains(&tensor); }

  result<void> advance(std::string_view stage, std::string_view current, std::uint64_t done) const {
    if (!report_progress_ || report_progress_({stage, current, done, selected_bytes_})) return {};
    return error(errc::invalid_argument, "interrupted");
  }

  cpu backend_;
  const checkpoint& model_;
  const compress_options& options_;
  const progress_callback& report_progress_;
  std::vector<selected_block> blocks_;
  std::optional<model_code> model_code_;
  rate_correction correction_{0};  ///< without a target it changes nothing
  std::set<const tensor_entry*> selected_;
  std::uint64_t selected_bytes_ = 0;
};

/// One block for each number format of `block`, in the order in which they come.
ECQ_INLINE std::vector<selected_block> split_by_format(const selected_block& block) {
  std::vector<selected_block> parts;
  for (const selected_tensor& tensor : block.tensors) {
    const dtype type = *dtype_from_safetensors(tensor.entry->dtype);
    const std::string name = block.name + "." + std::string(to_string(type));
    auto part = std::find_if(parts.begin(), parts.end(), [&](const selected_block& each) { return each.name == name; });
    if (part == parts.end()) part = parts.insert(part, {name, {}});
    part->tensors.push_back(tensor);
  }
  return parts;
}

ECQ_INLINE result<void> checkpoint_compressor::select() {
  std::vector<tensor_summary> summaries;
  for (const tensor_entry& tensor : model_.tensors()) {
    summaries.push_back({tensor.name, dtype_from_safetensors(tensor.dtype), tensor.shape});
  }
  tensor_selection rules = options_.selection;
  rules.embeddings = rules.embeddings || options_.lossless;
  ECQ_TRY(chosen, select_tensors(rules, summaries));
  for (const tensor_block& block : chosen) {
    selected_block kept{block.name, {}};
    for (const std::size_t position : block.tensors) {
      const tensor_entry& tensor = model_.tensors()[position];
      if (options_.keep_non_finite && !options_.lossless) {
        ECQ_TRY(weights, weights_of(tensor));
        const auto finite = check_finite(backend_, weights);
        model_.release(tensor);
        if (!finite && finite.error().code() == errc::non_finite) continue;
        ECQ_CHECK(finite);
      }
      kept.tensors.push_back({&tensor, 0});
      selected_.insert(&tensor);
      selected_bytes_ += tensor.size_bytes();
    }
    if (options_.lossless) {
      for (selected_block& part : split_by_format(kept)) blocks_.push_back(std::move(part));
    } else if (options_.entrollm) {
      for (const selected_tensor& tensor : kept.tensors) blocks_.push_back({tensor.entry->name, {tensor}});
    } else if (!kept.tensors.empty()) {
      blocks_.push_back(std::move(kept));
    }
  }
  if (blocks_.empty()) {
    return error(errc::invalid_argument, "none of " + std::to_string(model_.tensors().size()) +
                                             " tensors is selected: weights have two dimensions or more, and "
                                             "embeddings have to be included by name");
  }
  return {};
}

ECQ_INLINE result<void> checkpoint_compressor::find_model_code() {
  std::uint64_t done = 0;
  const auto begin = [&](const selected_tensor& tensor) -> result<void> {
    ECQ_CHECK(advance("counting codes", tensor.entry->name, done));
    done += tensor.entry->size_bytes();
    return {};
  };
  ECQ_TRY(code, visit_code_format(options_.format, [&]<class Format>() -> result<model_code> {
            if constexpr (affine_format<Format>) {
              return make_model_code<Format>(backend_, model_, options_, blocks_, begin);
            } else {
              return error(errc::invalid_argument, "format");
            }
          }));
  model_code_ = code;
  return {};
}

ECQ_INLINE container_plan checkpoint_compressor::plan() const {
  container_plan planned;
  planned.metadata = model_.metadata();
  planned.tool = "ecq " ECQ_VERSION_STRING;
  const std::string format(to_string(options_.format));
  planned.settings = options_.lossless   ? options_.pairs ? "lossless, pairs" : "lossless"
                     : options_.entrollm ? format + ", entrollm"
                     : options_.bits_per_weight
                         ? format + ", entquant, bits " + std::to_string(*options_.bits_per_weight)
                         : format + ", entquant, lambda " + std::to_string(options_.lambda.value_or(0));
  for (const selected_block& block : blocks_) {
    container_plan::block& described = planned.blocks.emplace_back();
    described.name = block.name;
    for (const selected_tensor& tensor : block.tensors) {
      described.matrices.push_back({tensor.entry->name, tensor.entry->shape, options_.lossless, options_.entrollm});
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

ECQ_INLINE result<packed_block> checkpoint_compressor::compress(const selected_block& block,
                                                                std::vector<histogram>& counts) const {
  packed_block packed;
  std::size_t symbols = 0;
  for (const selected_tensor& tensor : block.tensors) {
    ECQ_TRY(weights, weights_of(*tensor.entry));
    symbols += weights.size();
  }
  std::vector<std::uint8_t> codes(symbols);
  std::size_t first = 0;
  for (const selected_tensor& tensor : block.tensors) {
    ECQ_TRY(weights, weights_of(*tensor.entry));
    const std::size_t rows = weights.rows();
    const auto quantizer = entquant{}.at(correction_.at(tensor.lambda));
    packed_matrix matrix{.name = tensor.entry->name,
                         .shape = tensor.entry->shape,
                         .original = weights.type(),
                         .format = options_.format,
                         .layout = options_.entrollm ? entrollm{}.layout(rows, weights.columns())
                                                     : quantizer.layout(rows, weights.columns()),
                         .first_symbol = first,
                         .zero = tensor.grid.zero,
                         .scales = {}};
    matrix.scales.resize(matrix.layout.count(), tensor.grid.scale);
    const auto part = std::span(codes).subspan(first, weights.size());
    auto quantized = visit_code_format(options_.format, [&]<class Format>() -> result<void> {
      if constexpr (affine_format<Format>) {
        return entrollm{}.encode<Format>(backend_, weights, tensor.grid, part);
      } else if constexpr (symmetric_format<Format>) {
        return quantizer.template quantize<Format>(backend_, weights, part, matrix.scales);
      } else {
        return error(errc::invalid_argument, "format");
      }
    });
    if (!quantized) return std::move(quantized).error().within("tensor '" + tensor.entry->name + "'");
    model_.release(*tensor.entry);
    ECQ_TRY(count, count_codes(backend_, part));
    counts.push_back(count);
    packed.matrices.push_back(std::move(matrix));
    first += weights.size();
  }
  const stream_options how{.chunk_bits = options_.chunk_bits,
                           .shared_counts = model_code_ ? &model_code_->counts : nullptr};
  ECQ_CHECK(with_stream_coder([&]<class Coder>(Coder) -> result<void> {
    ECQ_TRY(stream, encode_stream<Coder>(backend_, codes, how));
    packed.stream = std::move(stream);
    return {};
  }));
  return packed;
}

ECQ_INLINE result<packed_block> checkpoint_compressor::compress_lossless(const selected_block& block,
                                                                         std::vector<histogram>& counts) const {
  packed_block packed;
  std::vector<std::byte> elements;
  std::size_t first = 0;
  std::uint64_t bytes = 0;
  for (const selected_tensor& tensor : block.tensors) bytes += tensor.entry->size_bytes();
  elements.reserve(static_cast<std::size_t>(bytes));
  for (const selected_tensor& tensor : block.tensors) {
    ECQ_TRY(weights, weights_of(*tensor.entry));
    packed.matrices.push_back({.name = tensor.entry->name,
                               .shape = tensor.entry->shape,
                               .original = weights.type(),
                               .format = weights.type(),
                               .layout = without_groups(weights.rows(), weights.columns()),
                               .first_symbol = first,
                               .scales = {}});
    append_bits(weights, elements);
    model_.release(*tensor.entry);
    const std::size_t width = size_of(weights.type());
    ECQ_TRY(count, count_exponents(backend_, weights.type(), std::span(elements).subspan(first * width)));
    counts.push_back(count);
    first += weights.size();
  }
  const dtype format = packed.matrices.front().format;
  ECQ_CHECK(with_stream_coder([&]<class Coder>(Coder) -> result<void> {
    ECQ_TRY(stream, encode_exponents<Coder>(backend_, format, elements,
                                            {.chunk_bits = options_.chunk_bits, .pairs = options_.pairs}));
    packed.stream = std::move(stream);
    return {};
  }));
  return packed;
}

ECQ_INLINE result<compress_report> checkpoint_compressor::write(container_writer& writer, int attempt) const {
  compress_report report;
  report.input_bytes = model_.size_bytes();
  report.passed_through = model_.tensors().size() - selected_.size();
  if (model_code_) report.joint_entropy = entropy_of(model_code_->counts);
  const std::string stage = attempt == 1 ? "compressing" : "compressing, pass " + std::to_string(attempt);
  ECQ_CHECK(advance(stage, "tensors that stay", 0));
  ECQ_CHECK(pass_through(writer));
  std::uint64_t done = 0;
  for (const selected_block& block : blocks_) {
    ECQ_CHECK(advance(stage, block.name, done));
    std::vector<histogram> counts;
    ECQ_TRY(packed, options_.lossless ? compress_lossless(block, counts) : compress(block, counts));
    ECQ_CHECK(writer.write_block(block.name, packed));
    report.add_block(block.name, packed, counts);
    for (const selected_tensor& tensor : block.tensors) {
      done += tensor.entry->size_bytes();
      report.lambda = (std::max)(report.lambda, correction_.at(tensor.lambda));
    }
  }
  ECQ_CHECK(advance(stage, "", done));
  return report;
}

ECQ_INLINE result<void> check_options(const compress_options& options) {
  const bool symmetric =
      options.format == dtype::fp8_e4m3 || options.format == dtype::fp8_e5m2 || options.format == dtype::int8;
  if (options.entrollm ? !is_affine(options.format) : !symmetric) {
    return error(errc::invalid_argument, std::string("codes are ") +
                                             (options.entrollm ? "uint8 or uint4" : "fp8_e4m3, fp8_e5m2 or int8") +
                                             ", not " + std::string(to_string(options.format)));
  }
  if (int{options.bits_per_weight.has_value()} + int{options.lambda.has_value()} + int{options.lossless} +
          int{options.entrollm} !=
      1) {
    return error(errc::invalid_argument, "either bits per weight or lambda or lossless or entrollm has to be set");
  }
  if (options.bits_per_tensor && !options.bits_per_weight) {
    return error(errc::invalid_argument, "bits per tensor need bits per weight");
  }
  if (options.pairs && !options.lossless) return error(errc::invalid_argument, "pairs are for lossless alone");
  return {};
}

}  // namespace detail

ECQ_INLINE result<compress_report> compress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                       const std::filesystem::path& out,
                                                       const compress_options& options,
                                                       const progress_callback& report_progress) {
  try {
    ECQ_CHECK(detail::check_options(options));
    ECQ_TRY(model, checkpoint::open(in));
    if (model.shards().size() == 1 && is_container(model.shards().front())) {
      return error(errc::invalid_argument, detail::quoted(in) + ": it is compressed already");
    }
    return detail::checkpoint_compressor(backend, model, options, report_progress).run(out);
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the codes of a block");
  }
}

}  // namespace ecq
