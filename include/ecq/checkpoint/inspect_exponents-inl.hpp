#pragma once
/// \file
/// Definition of the inspection of exponents.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/analysis/exponent_law.hpp"
#include "ecq/analysis/hadamard.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/inspect_exponents.hpp"
#include "ecq/checkpoint/matrix_part.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/io/checkpoint.hpp"

namespace ecq {

namespace detail {

/// Sums over weights of any formats. Entropies of a block of several formats are weighted means over its formats.
class exponent_sum {
 public:
  result<void> add(const cpu& backend, const weights_view& weights) {
    ECQ_TRY(stored, count_weight_exponents(backend, weights));
    ECQ_TRY(scaled, count_scaled_exponents<fp8_e4m3>(backend, weights));
    ECQ_TRY(rotated, count_scaled_exponents<fp8_e4m3>(backend, weights, hadamard_block(weights.columns())));
    at(weights.type()) += stored;
    scaled_ += scaled;
    rotated_ += rotated;
    return {};
  }

  exponent_sum& operator+=(const exponent_sum& other) {
    for (const auto& [type, counts] : other.stored_) at(type) += counts;
    scaled_ += other.scaled_;
    rotated_ += other.rotated_;
    return *this;
  }

  exponent_row row(std::string name, std::string block) const {
    exponent_row shown{std::move(name), std::move(block), stored_.size() > 1 ? "mixed" : "", {}};
    if (stored_.size() == 1) shown.format = to_string(stored_.front().first);
    exponent_statistics& exponents = shown.exponents;
    exponent_counts all;
    for (const auto& [type, counts] : stored_) {
      const auto weights = static_cast<double>(counts.weights());
      exponents.entropy += weights * exponent_entropy(counts, type);
      exponents.lossless_bits += weights * ecq::lossless_bits(counts, type);
      all += counts;
    }
    exponents.weights = all.weights();
    exponents.zeros = all.zeros();
    exponents.non_finite = all.non_finite();
    if (exponents.weights != 0) {
      exponents.entropy /= static_cast<double>(exponents.weights);
      exponents.lossless_bits /= static_cast<double>(exponents.weights);
    }
    exponents.scaled_entropy = exponent_entropy(scaled_, dtype::fp8_e4m3);
    exponents.rotated_entropy = exponent_entropy(rotated_, dtype::fp8_e4m3);
    exponents.stable_alpha = fit_stable_alpha(all);
    exponents.fitted = fit_two_sided_geometric(all);
    return shown;
  }

 private:
  exponent_counts& at(dtype type) {
    for (auto& [present, counts] : stored_) {
      if (present == type) return counts;
    }
    return stored_.emplace_back(type, exponent_counts{}).second;
  }

  std::vector<std::pair<dtype, exponent_counts>> stored_;
  exponent_counts scaled_, rotated_;
};

/// One run of inspect_exponents.
class exponent_inspection {
 public:
  exponent_inspection(const cpu& backend, const progress_callback& report_progress)
      : backend_(backend), report_progress_(report_progress) {}

  result<exponent_report> plain(const std::filesystem::path& in, const std::string& block_pattern) {
    ECQ_TRY(model, checkpoint::open(in));
    tensor_selection rules;
    rules.everything = true;
    rules.block_pattern = block_pattern;
    std::vector<tensor_summary> summaries;
    for (const tensor_entry& tensor : model.tensors()) {
      summaries.push_back({tensor.name, dtype_from_safetensors(tensor.dtype), tensor.shape});
    }
    ECQ_TRY(blocks, select_tensors(rules, summaries));
    for (const tensor_block& block : blocks) {
      for (const std::size_t position : block.tensors) total_bytes_ += model.tensors()[position].size_bytes();
    }
    for (const tensor_block& block : blocks) {
      exponent_sum of_block;
      for (const std::size_t position : block.tensors) {
        const tensor_entry& tensor = model.tensors()[position];
        ECQ_TRY(weights, as_weights(tensor, model.bytes(tensor)));
        const std::size_t width = size_of(weights.type());
        exponent_sum of_tensor;
        const auto count = [&](const matrix_part& part) -> result<void> {
          ECQ_CHECK(next(tensor.name));
          const auto bytes = model.bytes(tensor).subspan(part.first * width, part.rows * part.columns * width);
          ECQ_CHECK(of_tensor.add(backend_, part.of(weights.type(), bytes)));
          model.release(tensor, bytes);
          done_bytes_ += bytes.size();
          return {};
        };
        ECQ_CHECK(for_each_part(weights.rows(), weights.columns(), longest_row_bytes / width, count));
        keep(of_tensor, tensor.name, block.name, of_block);
      }
      finish(of_block, block.name);
    }
    report_.total = total_.row("", "");
    return std::move(report_);
  }

  result<exponent_report> container(const std::filesystem::path& in) {
    ECQ_TRY(readers, open_containers(in));
    report_.container = true;
    for (const container_reader& reader : readers) total_bytes_ += reader.size_bytes();
    for (const container_reader& reader : readers) {
      for (std::size_t index = 0; index < reader.blocks().size(); ++index) {
        const std::string& name = reader.blocks()[index].name;
        ECQ_TRY(block, reader.load(index));
        if (auto done = compressed(name, block); !done) return std::move(done).error().within("block '", name, "'");
        reader.release(block);
      }
    }
    report_.total = total_.row("", "");
    return std::move(report_);
  }

 private:
  result<void> next(const std::string& name) const {
    if (!report_progress_ || report_progress_({"counting exponents", name, done_bytes_, total_bytes_})) return {};
    return error(errc::invalid_argument, "interrupted");
  }

  void keep(const exponent_sum& of_tensor, const std::string& name, const std::string& block, exponent_sum& of_block) {
    report_.tensors.push_back(of_tensor.row(name, block));
    of_block += of_tensor;
  }

  void finish(const exponent_sum& of_block, const std::string& name) {
    exponent_row row = of_block.row(name, name);
    if (row.exponents.weights == 0) return;
    report_.blocks.push_back(std::move(row));
    total_ += of_block;
  }

  result<void> compressed(const std::string& name, const mapped_block& block) {
    ECQ_TRY(decoder, block_decoder::open(block));
    exponent_sum of_block;
    std::vector<std::byte> codes;
    const std::uint64_t before = done_bytes_;
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      const packed_matrix& matrix = block.matrices[index];
      if (!is_floating_point(matrix.format)) continue;
      exponent_sum of_matrix;
      const std::size_t width = size_of(matrix.format);
      const auto count = [&](const matrix_part& part) -> result<void> {
        ECQ_CHECK(next(matrix.name));
        codes.resize(part.rows * part.columns * width);
        ECQ_CHECK(decode_elements(backend_, decoder.stream(), matrix.first_symbol + part.first, codes));
        return of_matrix.add(backend_, part.of(matrix.format, codes));
      };
      ECQ_CHECK(for_each_part(matrix.layout.rows, matrix.layout.columns, longest_row_bytes / width, count));
      keep(of_matrix, matrix.name, name, of_block);
      done_bytes_ = before + block.stream.size() * (index + 1) / block.matrices.size();
    }
    done_bytes_ = before + block.stream.size();
    finish(of_block, name);
    return {};
  }

  const cpu& backend_;
  const progress_callback& report_progress_;
  exponent_report report_;
  exponent_sum total_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace detail

ECQ_INLINE result<exponent_report> inspect_exponents(const cpu& backend, const std::filesystem::path& in,
                                                     const progress_callback& report_progress,
                                                     const std::string& block_pattern) {
  return detail::or_out_of_memory("counts of exponents", [&]() -> result<exponent_report> {
    ECQ_TRY(compressed, is_container(in));
    detail::exponent_inspection work(backend, report_progress);
    return compressed ? work.container(in) : work.plain(in, block_pattern);
  });
}

}  // namespace ecq
