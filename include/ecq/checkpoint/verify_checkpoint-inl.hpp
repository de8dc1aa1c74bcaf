#pragma once
/// \file
/// Definition of the verification of containers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/decompress_checkpoint-inl.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/quantized_tensors.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/quantize/finite.hpp"

namespace ecq {

namespace detail {

/// One run of verify_checkpoint.
class checkpoint_verifier {
 public:
  checkpoint_verifier(const cpu& backend, std::span<const container_reader> containers, const checkpoint* original,
                      const progress_callback& report_progress)
      : backend_(backend), containers_(containers), original_(original), report_progress_(report_progress) {}

  result<verify_report> run() {
    report_.compared = original_ != nullptr;
    if (original_ != nullptr) {
      quantized_ = quantized_tensors::find(*original_);
      ECQ_CHECK(check_names());
    }
    for (const container_reader& container : containers_) {
      container_ = &container;
      done_ = 0;
      ECQ_CHECK(verify_container());
    }
    if (original_ != nullptr) {
      ECQ_TRY(same_headers, has_headers_of_original());
      report_.same_file = same_headers && report_.identical();
    }
    return std::move(report_);
  }

 private:
  result<void> check_names() const;
  result<bool> has_headers_of_original() const;
  result<void> verify_container();
  result<void> verify_block(std::size_t index);
  result<void> verify_matrix(const block_decoder& decoder, std::size_t position);
  result<void> verify_bits(const block_decoder& decoder, std::size_t position);
  result<void> compare_bytes(const tensor_entry& tensor);

  std::size_t position_of(const tensor_entry& entry) const {
    return static_cast<std::size_t>(&entry - original_->tensors().data());
  }

  result<const tensor_entry*> original_of(const std::string& name, std::span<const std::uint64_t> shape) const {
    const tensor_entry* tensor = original_->find(name);
    if (tensor == nullptr) return error(errc::not_found, "tensor '", name, "' is not in the original");
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
      return error(errc::checksum_mismatch, "tensor '", name, "' has a different shape in the original");
    }
    return tensor;
  }

  cpu backend_;
  std::span<const container_reader> containers_;
  const container_reader* container_ = nullptr;  ///< the container that is being verified
  const checkpoint* original_;
  std::optional<quantized_tensors> quantized_;  ///< quantised tensors of the original
  const progress_callback& report_progress_;
  verify_report report_;
  std::uint64_t done_ = 0;
};

ECQ_INLINE result<void> checkpoint_verifier::check_names() const {
  std::size_t tensors = 0;
  for (const container_reader& container : containers_) {
    tensors += container.passed_through().size();
    for (const block_description& block : container.blocks()) {
      for (const packed_matrix& matrix : block.matrices) {
        ++tensors;
        // Weights that were already quantised have absorbed their scales.
        const tensor_entry* entry = matrix.lossless() ? nullptr : original_->find(matrix.name);
        if (entry != nullptr && (*quantized_)[position_of(*entry)].scales) ++tensors;
      }
    }
  }
  if (tensors == original_->tensors().size()) return {};
  return error(errc::not_found, "the original has ", original_->tensors().size(), " tensors, but the container has ",
               tensors);
}

ECQ_INLINE result<bool> checkpoint_verifier::has_headers_of_original() const {
  if (original_->shards().size() != containers_.size()) return false;
  for (std::size_t index = 0; index < containers_.size(); ++index) {
    ECQ_TRY(header, containers_[index].original_header());
    if (!std::ranges::equal(header, original_->shards()[index].header_bytes())) return false;
  }
  return true;
}

ECQ_INLINE result<void> checkpoint_verifier::verify_container() {
  ECQ_CHECK(container_->verify([&](std::string_view name, std::uint64_t done, std::uint64_t total) {
    return !report_progress_ || report_progress_({"checking", name, done, total});
  }));
  report_.checksums += container_->file().tensors().size();
  for (std::size_t index = 0; index < container_->blocks().size(); ++index) ECQ_CHECK(verify_block(index));
  if (original_ == nullptr) return {};
  for (const tensor_entry& tensor : container_->passed_through()) ECQ_CHECK(compare_bytes(tensor));
  return {};
}

ECQ_INLINE result<void> checkpoint_verifier::verify_block(std::size_t index) {
  const std::string& name = container_->blocks()[index].name;
  ECQ_TRY(block, container_->load(index));
  auto decoder = block_decoder::open(block);
  if (!decoder) return std::move(decoder).error().within("block '", name, "'");
  report_.checksums += static_cast<std::size_t>(decoder->stream().chunk_count());
  for (std::size_t position = 0; position < block.matrices.size(); ++position) {
    if (report_progress_ &&
        !report_progress_({"decoding", block.matrices[position].name, done_, container_->size_bytes()})) {
      return error(errc::invalid_argument, "interrupted");
    }
    if (auto verified = verify_matrix(*decoder, position); !verified) {
      return std::move(verified).error().within("block '", name, "'");
    }
  }
  done_ += block.stream.size();
  container_->release(block);
  return {};
}

ECQ_INLINE result<void> checkpoint_verifier::verify_matrix(const block_decoder& decoder, std::size_t position) {
  const packed_matrix& matrix = decoder.matrices()[position];
  if (matrix.lossless()) return verify_bits(decoder, position);
  tensor_verification outcome{.name = matrix.name,
                              .weights = matrix.layout.rows * matrix.layout.columns,
                              .compressed = true,
                              .lossless = false,
                              .identical = false,
                              .error = {}};
  std::optional<weights_view> before;
  if (original_ != nullptr) {
    ECQ_TRY(entry, original_of(matrix.name, matrix.shape));
    ECQ_TRY(weights, quantized_->weights_of(*entry, position_of(*entry), original_->bytes(*entry)));
    before = weights;
  }
  ECQ_CHECK(visit_output(output_type(matrix, {}), [&]<class Element>() {
    return decode_in_pieces<Element>(
        backend_, decoder, position,
        [&](std::size_t row, std::size_t rows, std::span<const Element> weights) -> result<void> {
          if (!before) return {};
          // In a stack, a row of the layout is a whole matrix.
          const std::size_t each = before->rows() / matrix.layout.rows;
          const matrix_view<const Element> after(weights.data(), rows * each, before->columns());
          ECQ_TRY(part, measure_error(backend_, before->row_range(row * each, rows * each), after));
          outcome.error += part;
          const tensor_entry& entry = *original_->find(matrix.name);
          const std::size_t row_bytes = static_cast<std::size_t>(entry.size_bytes()) / matrix.layout.rows;
          original_->release(entry, original_->bytes(entry).subspan(row * row_bytes, rows * row_bytes));
          return {};
        });
  }));
  if (original_ == nullptr) return {};
  if (outcome.error.non_finite != 0) {  // decoded weights are finite
    auto found = check_finite(backend_, *before);
    if (!found) return std::move(found).error().within("tensor '", matrix.name, "' of the original");
  }
  report_.total += outcome.error;
  report_.tensors.push_back(std::move(outcome));
  return {};
}

ECQ_INLINE result<void> checkpoint_verifier::verify_bits(const block_decoder& decoder, std::size_t position) {
  const packed_matrix& matrix = decoder.matrices()[position];
  const tensor_entry* entry = nullptr;
  bool identical = true;
  if (original_ != nullptr) {
    ECQ_TRY(found, original_of(matrix.name, matrix.shape));
    entry = found;
    identical = entry->dtype == (matrix.is_bytes() ? matrix.element_type : safetensors_name(matrix.format));
  }
  const std::size_t row_bytes = matrix.layout.columns * size_of(matrix.format);
  std::vector<std::byte> scratch;
  ECQ_CHECK(decode_codes_in_pieces(
      backend_, decoder, position,
      [&](std::size_t row, std::size_t rows, std::span<const std::byte> codes) -> result<void> {
        if (entry == nullptr || !identical) return {};
        const auto expected = original_->bytes(*entry).subspan(row * row_bytes, rows * row_bytes);
        const auto found = little_endian_bytes(codes, size_of(matrix.format), scratch);
        identical = std::memcmp(expected.data(), found.data(), found.size()) == 0;
        original_->release(*entry, expected);
        return {};
      }));
  if (!identical) return error(errc::checksum_mismatch, "tensor '", matrix.name, "' differs from the original");
  if (entry == nullptr) return {};
  report_.tensors.push_back({.name = matrix.name,
                             .weights = matrix.weights(),
                             .compressed = true,
                             .lossless = true,
                             .identical = true,
                             .error = {}});
  return {};
}

ECQ_INLINE result<void> checkpoint_verifier::compare_bytes(const tensor_entry& tensor) {
  ECQ_TRY(entry, original_of(tensor.name, tensor.shape));
  const auto expected = original_->bytes(*entry);
  bool identical = entry->dtype == tensor.dtype && expected.size() == tensor.size_bytes();
  std::size_t at = 0;
  ECQ_CHECK(container_->read(tensor, [&](std::span<const std::byte> piece) -> result<void> {
    if (identical) {
      const auto part = expected.subspan(at, piece.size());
      identical = std::memcmp(part.data(), piece.data(), piece.size()) == 0;
      original_->release(*entry, part);
      at += piece.size();
    }
    return {};
  }));
  if (!identical) return error(errc::checksum_mismatch, "tensor '", tensor.name, "' differs from the original");
  report_.tensors.push_back({.name = tensor.name,
                             .weights = tensor.size_bytes() * 8 / find_safetensors_dtype(tensor.dtype)->bits,
                             .compressed = false,
                             .lossless = false,
                             .identical = true,
                             .error = {}});
  return {};
}

}  // namespace detail

ECQ_INLINE result<verify_report> verify_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                   const std::optional<std::filesystem::path>& original,
                                                   const progress_callback& report_progress) {
  return detail::or_out_of_memory("a few million weights", [&]() -> result<verify_report> {
    ECQ_TRY(containers, open_containers(in));
    if (!original) return detail::checkpoint_verifier(backend, containers, nullptr, report_progress).run();
    ECQ_TRY(model, open_plain(*original));
    return detail::checkpoint_verifier(backend, containers, &model, report_progress).run();
  });
}

}  // namespace ecq
