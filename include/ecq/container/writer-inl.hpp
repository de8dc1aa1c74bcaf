#pragma once
/// \file
/// Definition of the writer of containers.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/container/description.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/packed_scales.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "ecq/packed.hpp"

namespace ecq {

ECQ_INLINE result<void> container_writer::write_tensor(std::string_view name, std::span<const std::byte> bytes) {
  return write_tensor(name, bytes, [](std::span<const std::byte>) {});
}

ECQ_INLINE result<void> container_writer::commit() {
  if (committed_) return {};
  ECQ_CHECK(finish());
  ECQ_CHECK(file_.commit());
  committed_ = true;
  return {};
}

ECQ_INLINE container_writer::container_writer(safetensors_writer file, container_plan plan)
    : file_(std::move(file)), plan_(std::move(plan)), blocks_(plan_.blocks.size()) {
  for (std::size_t index = 0; index < plan_.blocks.size(); ++index) {
    index_.emplace(plan_.blocks[index].name, index);
    for (const container_plan::matrix& matrix : plan_.blocks[index].matrices) has_tables_ = has_tables_ || matrix.table;
  }
}

namespace detail {

/// Returns the metadata with the longest description that the plan can lead to.
ECQ_INLINE result<string_map> widest_metadata(const container_plan& plan) {
  constexpr std::uint64_t widest = (std::numeric_limits<std::uint64_t>::max)();
  container_description description{plan.tool, plan.settings, {}, {}};
  const auto expect_tensor = [&](const std::string& name) { description.checksums.push_back({name, widest}); };
  for (const container_plan::block& block : plan.blocks) {
    block_description& described = description.blocks.emplace_back();
    described.name = block.name;
    described.symbols = widest;
    expect_tensor(stream_tensor_name(block.name));
    for (const container_plan::matrix& matrix : block.matrices) {
      packed_matrix& widest_matrix = described.matrices.emplace_back();
      widest_matrix.name = matrix.name;
      widest_matrix.shape = matrix.shape;
      widest_matrix.original = dtype::fp8_e4m3;  // no name is longer
      widest_matrix.format = dtype::fp8_e4m3;
      widest_matrix.layout.rows_per_group = (std::numeric_limits<std::size_t>::max)();
      widest_matrix.layout.columns_per_group = (std::numeric_limits<std::size_t>::max)();
      widest_matrix.first_symbol = widest;
      widest_matrix.zero = matrix.zero_point ? 1.0F : 0.0F;
      widest_matrix.element_type = matrix.element_type;
      described.exact.push_back(matrix.exact);
      if (matrix.exact != 0) expect_tensor(exact_tensor_name(matrix.name));
      if (matrix.table) expect_tensor(value_tensor_name(matrix.name));
      if (!matrix.lossless) expect_tensor(scale_tensor_name(matrix.name));
    }
  }
  for (const tensor_declaration& tensor : plan.pass_through) expect_tensor(tensor.name);
  if (!plan.original_header.empty()) expect_tensor(std::string(original_header_name));
  ECQ_CHECK(check_unique_names(description));
  string_map metadata = plan.metadata;
  if (find_value(metadata, container_metadata_key) != nullptr) {
    return error(errc::invalid_argument, "the original has the metadata key '", container_metadata_key,
                 "', which is reserved for containers; is it already compressed?");
  }
  metadata.emplace_back(container_metadata_key, to_json(description));
  return metadata;
}

}  // namespace detail

ECQ_INLINE result<container_writer> container_writer::create(const std::filesystem::path& path, container_plan plan) {
  const auto bad = [&](const auto&... parts) {
    return error(errc::invalid_argument, detail::quoted(path), ": ", parts...);
  };
  std::vector<tensor_declaration> tensors;
  std::set<std::string> names;  // including matrices, which are restored as tensors of these names
  for (const container_plan::block& block : plan.blocks) {
    if (block.matrices.empty()) return bad("block '", block.name, "' has no matrices");
    tensors.push_back({stream_tensor_name(block.name), "U8"});
    for (const container_plan::matrix& matrix : block.matrices) {
      if (matrix.exact != 0) tensors.push_back({exact_tensor_name(matrix.name), "U8"});
      if (matrix.table) tensors.push_back({value_tensor_name(matrix.name), "F32"});
      if (!matrix.lossless) tensors.push_back({scale_tensor_name(matrix.name), "U8"});
      if (!names.insert(matrix.name).second) return bad("matrix '", matrix.name, "' occurs twice");
    }
  }
  for (const tensor_declaration& tensor : plan.pass_through) {
    if (!tensor.shape) return bad("tensor '", tensor.name, "' has no shape");
    if (tensor.name == original_header_name) return bad("the container itself needs the name '", tensor.name, "'");
    if (!names.insert(tensor.name).second) return bad("tensor '", tensor.name, "' occurs twice");
    tensors.push_back(tensor);
  }
  if (!plan.original_header.empty()) {
    tensors.push_back(
        {std::string(original_header_name), "U8", std::vector<std::uint64_t>{plan.original_header.size()}});
  }
  tensors.push_back({std::string(header_checksum_name), "U8", std::vector<std::uint64_t>{8}});
  auto metadata = detail::widest_metadata(plan);
  if (!metadata) return bad(metadata.error().message());
  std::set<std::string_view> declared;
  for (const tensor_declaration& tensor : tensors) {
    if (declared.insert(tensor.name).second) continue;
    return bad("the name '", tensor.name, "' is needed twice: by the container itself and by the original");
  }
  for (const container_plan::block& block : plan.blocks) {
    for (const container_plan::matrix& matrix : block.matrices) {
      if (!declared.contains(matrix.name)) continue;
      return bad("the container itself needs the name of matrix '", matrix.name, "'");
    }
  }
  for (const std::string& name : names) {
    if (!is_utf8(name)) return bad("the name '", name, "' is not UTF-8");
  }
  if (!is_utf8(plan.tool) || !is_utf8(plan.settings)) return bad("tool or settings are not UTF-8");
  ECQ_TRY(file, safetensors_writer::create(path, std::move(tensors), std::move(*metadata)));
  return container_writer(std::move(file), std::move(plan));
}

ECQ_INLINE result<void> container_writer::write_block(std::string_view name, packed_block_view block) {
  const auto bad = [&](const auto&... parts) {
    return error(errc::invalid_argument, "block '", name, "': ", parts...);
  };
  const auto found = index_.find(name);
  if (found == index_.end()) return bad("not in the plan");
  const container_plan::block* planned = &plan_.blocks[found->second];
  if (planned->matrices.size() != block.matrices.size()) {
    return bad(block.matrices.size(), " matrices, but ", planned->matrices.size(), " were planned");
  }
  block_description described;
  described.name = name;
  for (std::size_t index = 0; index < block.matrices.size(); ++index) {
    const packed_matrix& matrix = block.matrices[index];
    const container_plan::matrix& expected = planned->matrices[index];
    if (matrix.name != expected.name || matrix.shape != expected.shape || matrix.lossless() != expected.lossless ||
        matrix.element_type != expected.element_type) {
      return bad("matrix '", matrix.name, "' differs from the planned '", expected.name,
                 "' in name, shape, type or losslessness");
    }
    if ((matrix.format == dtype::table) != expected.table || matrix.values.size() != (expected.table ? 256U : 0U)) {
      return bad("matrix '", matrix.name, "': its table of values differs from the plan");
    }
    if (matrix.exact.size() != expected.exact) {
      return bad("matrix '", matrix.name, "': ", matrix.exact.size(), " exact weights, but ", expected.exact,
                 " were planned");
    }
    if (matrix.zero != 0 && !expected.zero_point) return bad("matrix '", matrix.name, "': no zero point was planned");
    const group_layout& layout = matrix.layout;
    if (matrix.scales.size() != layout.count()) {
      return bad("matrix '", matrix.name, "': ", matrix.scales.size(), " scales for ", layout.count(), " groups");
    }
    packed_matrix& copy = described.matrices.emplace_back();
    copy.name = matrix.name;
    copy.shape = matrix.shape;
    copy.original = matrix.original;
    copy.format = matrix.format;
    copy.layout = matrix.layout;
    copy.first_symbol = matrix.first_symbol;
    copy.zero = matrix.zero;
    copy.element_type = matrix.element_type;
    described.exact.push_back(matrix.exact.size());
    const std::uint64_t end = matrix.first_symbol + static_cast<std::uint64_t>(layout.rows) * layout.columns;
    described.symbols = (std::max)(described.symbols, end);
  }
  if (auto checked = check_block(described); !checked) return bad(checked.error().message());
  ECQ_CHECK(write_tensor(stream_tensor_name(name), block.stream));
  std::vector<std::byte> bytes;
  for (const packed_matrix& matrix : block.matrices) {
    if (matrix.exact.empty()) continue;
    bytes.resize(matrix.exact.size() * exact_weight_bytes);
    std::byte* next = bytes.data();
    for (const exact_weight& each : matrix.exact) {
      store_le<std::uint64_t>(next, each.position);
      store_le(next + 8, std::bit_cast<std::uint32_t>(each.weight));
      next += exact_weight_bytes;
    }
    ECQ_CHECK(write_tensor(exact_tensor_name(matrix.name), bytes));
  }
  for (const packed_matrix& matrix : block.matrices) {
    if (matrix.format != dtype::table) continue;
    bytes.resize(matrix.values.size() * 4);
    for (std::size_t code = 0; code < matrix.values.size(); ++code) {
      store_le(bytes.data() + 4 * code, std::bit_cast<std::uint32_t>(matrix.values[code]));
    }
    ECQ_CHECK(write_tensor(value_tensor_name(matrix.name), bytes));
  }
  for (const packed_matrix& matrix : block.matrices) {
    if (matrix.lossless()) continue;
    late_scales_.emplace_back(scale_tensor_name(matrix.name), pack_scales(matrix.scales));
  }
  if (!has_tables_) ECQ_CHECK(write_scales());
  blocks_[found->second] = std::move(described);
  return {};
}

ECQ_INLINE result<void> container_writer::write_scales() {
  for (const auto& [name, scales] : late_scales_) ECQ_CHECK(write_tensor(name, scales));
  late_scales_.clear();
  return {};
}

ECQ_INLINE result<void> container_writer::finish() {
  if (finished_) return {};
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    if (!blocks_[index].matrices.empty()) continue;
    return error(errc::invalid_argument, "block '", plan_.blocks[index].name, "' was not written");
  }
  ECQ_CHECK(write_scales());
  std::set<std::string_view> written;
  for (const tensor_checksum& each : checksums_) written.insert(each.tensor);
  for (const tensor_declaration& tensor : plan_.pass_through) {
    if (written.contains(tensor.name)) continue;
    return error(errc::invalid_argument, "tensor '", tensor.name, "' was not written");
  }
  if (!plan_.original_header.empty()) ECQ_CHECK(write_tensor(original_header_name, plan_.original_header));
  string_map metadata = std::move(plan_.metadata);
  metadata.emplace_back(container_metadata_key,
                        to_json({plan_.tool, plan_.settings, std::move(blocks_), std::move(checksums_)}));
  ECQ_TRY(header, file_.seal(metadata));
  std::array<std::byte, 8> checksum;
  store_le<std::uint64_t>(checksum.data(), xxh64(header));
  ECQ_CHECK(file_.write(header_checksum_name, checksum));
  ECQ_CHECK(file_.finish());
  finished_ = true;
  return {};
}

}  // namespace ecq
