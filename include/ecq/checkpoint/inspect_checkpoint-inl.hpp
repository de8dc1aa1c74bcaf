#pragma once
/// \file
/// Definition of the inspection of checkpoints.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/report.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"

namespace ecq {

namespace detail {

ECQ_INLINE void add_plain_tensor(const tensor_entry& tensor, checkpoint_report& report) {
  const unsigned bits = find_safetensors_dtype(tensor.dtype)->bits;
  tensor_report& plain = report.tensors.emplace_back();
  plain.name = tensor.name;
  plain.shape = tensor.shape;
  plain.format = tensor.dtype;
  plain.original = tensor.dtype;
  plain.weights = tensor.size_bytes() * 8 / bits;
  plain.bits_per_weight = bits;
  ++report.passed_through;
}

/// Counts the codes of each matrix of a block, or the exponents of lossless weights, a few million at a time.
ECQ_INLINE result<std::vector<histogram>> count_block(const cpu& backend, const block_decoder& decoder) {
  constexpr std::size_t codes_per_piece = std::size_t{1} << 24;
  std::vector<histogram> counts(decoder.matrices().size());
  std::vector<std::byte> codes;
  const std::size_t width = decoder.stream().element_bytes();
  for (std::size_t index = 0; index < counts.size(); ++index) {
    const packed_matrix& matrix = decoder.matrices()[index];
    const std::uint64_t end = matrix.first_symbol + matrix.layout.rows * matrix.layout.columns;
    for (std::uint64_t first = matrix.first_symbol; first < end; first += codes.size() / width) {
      codes.resize(static_cast<std::size_t>((std::min)(end - first, std::uint64_t{codes_per_piece})) * width);
      ECQ_CHECK(decode_elements(backend, decoder.stream(), first, codes));
      ECQ_TRY(count, matrix.codes_exponents()
                         ? count_exponents(backend, matrix.format, codes)
                         : count_codes(backend, {reinterpret_cast<const std::uint8_t*>(codes.data()), codes.size()}));
      counts[index] += count;
    }
  }
  return counts;
}

/// Adds the tensors of a container to the report.
ECQ_INLINE result<void> inspect_container(const cpu& backend, const container_reader& container,
                                          const progress_callback& report_progress, inspect_report& report) {
  std::uint64_t done = 0;
  for (std::size_t index = 0; index < container.blocks().size(); ++index) {
    const std::string& name = container.blocks()[index].name;
    if (report_progress && !report_progress({"inspecting", name, done, container.size_bytes()})) {
      return error(errc::invalid_argument, "interrupted");
    }
    ECQ_TRY(block, container.load(index));
    auto decoder = block_decoder::open(block);
    if (!decoder) return std::move(decoder).error().within("block '", name, "'");
    auto counts = count_block(backend, *decoder);
    if (!counts) return std::move(counts).error().within("block '", name, "'");
    report.add_block(name, block, *counts);
    done += block.stream.size();
    container.release(block);
  }
  for (const tensor_entry& tensor : container.passed_through()) add_plain_tensor(tensor, report);
  return {};
}

ECQ_INLINE result<inspect_report> inspect_containers(const cpu& backend, const std::filesystem::path& in,
                                                     const progress_callback& report_progress) {
  ECQ_TRY(containers, open_containers(in));
  inspect_report report;
  report.container = true;
  report.tool = containers.front().tool();
  report.settings = containers.front().settings();
  report.metadata = containers.front().metadata();
  for (const container_reader& container : containers) {
    report.file_bytes += container.size_bytes();
    ECQ_CHECK(inspect_container(backend, container, report_progress, report));
  }
  return report;
}

}  // namespace detail

ECQ_INLINE result<inspect_report> inspect_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                     const progress_callback& report_progress) {
  return detail::or_out_of_memory("a few million codes", [&]() -> result<inspect_report> {
    ECQ_TRY(compressed, is_container(in));
    if (compressed) return detail::inspect_containers(backend, in, report_progress);
    ECQ_TRY(model, checkpoint::open(in));
    inspect_report report;
    report.metadata = model.metadata();
    report.file_bytes = model.size_bytes();
    for (const tensor_entry& tensor : model.tensors()) detail::add_plain_tensor(tensor, report);
    return report;
  });
}

}  // namespace ecq
