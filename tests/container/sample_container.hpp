#pragma once
/// \file
/// A small container with one of everything. Its streams are opaque bytes, as nothing in this room looks into them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ecq/container/writer.hpp"
#include "support/files.hpp"

namespace ecq_test {

inline std::vector<std::byte> opaque_bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t at = 0; at < count; ++at) bytes[at] = static_cast<std::byte>((at * 37 + seed) & 0xFFU);
  return bytes;
}

inline ecq::packed_matrix sample_matrix(std::string name, std::vector<std::uint64_t> shape,
                                        std::size_t columns_per_group, std::uint64_t first_symbol) {
  ecq::packed_matrix matrix;
  matrix.name = std::move(name);
  matrix.shape = std::move(shape);
  matrix.original = ecq::dtype::bf16;
  matrix.format = ecq::dtype::fp8_e4m3;
  matrix.layout.rows = static_cast<std::size_t>(matrix.shape[0]);
  matrix.layout.columns = static_cast<std::size_t>(ecq::matrix_columns(matrix.shape).value_or(0));
  matrix.layout.rows_per_group = 1;
  matrix.layout.columns_per_group = columns_per_group;
  matrix.first_symbol = first_symbol;
  for (std::size_t group = 0; group < matrix.layout.count(); ++group) {
    matrix.scales.push_back(ecq::bf16::from_bits(static_cast<std::uint16_t>(0x3c00 + 3 * group)));
  }
  return matrix;
}

struct sample_block {
  std::string name;
  ecq::packed_block block;
};

inline std::vector<sample_block> sample_blocks() {
  std::vector<sample_block> blocks(2);
  blocks[0].name = "layers.0";
  blocks[0].block.matrices = {sample_matrix("layers.0.up", {3, 4}, 4, 0),
                              sample_matrix("layers.0.conv", {2, 2, 3}, 4, 12)};
  blocks[0].block.stream = opaque_bytes(128, 1);
  blocks[1].name = "head";
  blocks[1].block.matrices = {sample_matrix("head", {1, 1}, 1, 0)};
  blocks[1].block.matrices[0].format = ecq::dtype::int8;
  blocks[1].block.matrices[0].original = ecq::dtype::fp32;
  blocks[1].block.stream = opaque_bytes(64, 2);
  return blocks;
}

struct sample_tensor {
  ecq::tensor_declaration declared;
  std::string data;
};

inline std::vector<sample_tensor> sample_tensors() {
  return {{{"norm", "F32", std::vector<std::uint64_t>{3}}, "123456789abc"},
          {{"none", "I64", std::vector<std::uint64_t>{0, 4}}, ""},
          {{"flag", "BOOL", std::vector<std::uint64_t>{}}, std::string(1, '\1')}};
}

inline ecq::container_plan sample_plan() {
  ecq::container_plan plan;
  for (const sample_block& each : sample_blocks()) {
    auto& block = plan.blocks.emplace_back();
    block.name = each.name;
    for (const auto& matrix : each.block.matrices) block.matrices.push_back({matrix.name, matrix.shape});
  }
  for (const sample_tensor& tensor : sample_tensors()) plan.pass_through.push_back(tensor.declared);
  plan.metadata = {{"format", "pt"}, {"note", "gr\xc3\xbc\xc3\x9f \"dich\"\n"}};
  plan.tool = "test 1";
  plan.settings = "by hand";
  return plan;
}

/// Writes norms first, then blocks, then single bytes: the order that aligns every tensor.
inline ecq::result<void> write_sample(const std::filesystem::path& path) {
  ECQ_TRY(writer, ecq::container_writer::create(path, sample_plan()));
  const auto tensors = sample_tensors();
  ECQ_CHECK(writer.write_tensor("none", as_bytes(tensors[1].data)));
  ECQ_CHECK(writer.write_tensor("norm", as_bytes(tensors[0].data)));
  for (const sample_block& each : sample_blocks()) ECQ_CHECK(writer.write_block(each.name, each.block));
  ECQ_CHECK(writer.write_tensor("flag", as_bytes(tensors[2].data)));
  return writer.commit();
}

}  // namespace ecq_test
