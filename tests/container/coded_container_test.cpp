// A committed container with real streams: this version writes it byte for byte, and every later version must read it.
// ECQ_UPDATE_GOLDEN=1 in the environment writes it anew, for a new format version.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "container/sample_container.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"

namespace {

using ecq::cpu;
using ecq_test::code_source;
using ecq_test::golden;

constexpr const char* golden_file[] = {"container/coded.safetensors", "container/exact.safetensors"};

ecq::bf16 head_weight(std::size_t index) {
  static const auto exponents = code_source(2).bell(1000, 2);
  return ecq::bf16::from_bits(static_cast<std::uint16_t>(exponents[index] * 128U + (index * 37U & 0x7FU)));
}

/// Returns FP8 codes with scales by rANS, two matrices in one stream, one of them with exact weights if `exact`; and
/// BF16 weights without loss by Huffman.
std::vector<ecq_test::sample_block> coded_blocks(bool exact) {
  std::vector<ecq_test::sample_block> blocks(2);
  blocks[0].name = "layers.0";
  blocks[0].block.matrices = {ecq_test::sample_matrix("layers.0.up", {4, 100}, 100, 0),
                              ecq_test::sample_matrix("layers.0.down", {10, 3, 20}, 30, 400)};
  blocks[0].block.stream = *ecq::encode_stream(cpu{}, code_source(1).below(1000, 9));
  if (exact) blocks[0].block.matrices[1].exact = {{0, 1.0F}, {29, -0x1p-149F}, {599, 3.4e38F}};
  blocks[1].name = "head";
  blocks[1].block.matrices = {ecq_test::sample_matrix("head", {5, 200}, 1, 0)};
  auto& head = blocks[1].block.matrices[0];
  head.format = head.original;
  head.layout = ecq::without_groups(5, 200);
  head.scales.clear();
  std::vector<ecq::bf16> weights;
  for (std::size_t i = 0; i < 1000; ++i) weights.push_back(head_weight(i));
  blocks[1].block.stream =
      *ecq::encode_exponents<ecq::huffman>(cpu{}, ecq::dtype::bf16, std::as_bytes(std::span(weights)));
  return blocks;
}

ecq::result<void> write_coded(const std::filesystem::path& path, bool exact) {
  ecq::container_plan plan;
  for (const auto& each : coded_blocks(exact)) {
    auto& block = plan.blocks.emplace_back();
    block.name = each.name;
    for (const auto& matrix : each.block.matrices) {
      block.matrices.push_back(
          {.name = matrix.name, .shape = matrix.shape, .lossless = matrix.lossless(), .exact = matrix.exact.size()});
    }
  }
  plan.pass_through.push_back({"norm", "F32", std::vector<std::uint64_t>{3}});
  plan.tool = "test 2";
  ECQ_TRY(writer, ecq::container_writer::create(path, plan));
  ECQ_CHECK(writer.write_tensor("norm", ecq_test::as_bytes("123456789abc")));
  for (const auto& each : coded_blocks(exact)) ECQ_CHECK(writer.write_block(each.name, each.block));
  return writer.commit();
}

TEST(CodedContainer, IsWrittenByteForByte) {
  const ecq_test::temporary_folder folder;
  for (const bool exact : {false, true}) {
    const auto written = write_coded(folder / "out", exact);
    ASSERT_TRUE(written) << written.error().to_string();
    const std::string text = ecq_test::read_file(folder / "out");
    if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) ecq_test::write_file(golden(golden_file[exact]), text);
    EXPECT_TRUE(text == ecq_test::read_file(golden(golden_file[exact])));
  }
}

void expect_decoded(bool exact) {
  const auto reader = ecq::container_reader::open(golden(golden_file[exact]));
  ASSERT_TRUE(reader) << reader.error().to_string();
  ASSERT_TRUE(reader->verify());
  const auto blocks = coded_blocks(exact);
  ASSERT_EQ(reader->blocks().size(), blocks.size());
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const auto block = reader->load(index);
    ASSERT_TRUE(block) << block.error().to_string();
    const auto decoder = ecq::block_decoder::open(*block);
    ASSERT_TRUE(decoder) << decoder.error().to_string();
    for (std::size_t at = 0; at < block->matrices.size(); ++at) {
      const ecq::group_layout layout = block->matrices[at].layout;
      std::vector<float> weights(layout.rows * layout.columns);
      const auto done = decoder->decode(cpu{}, at, 0, ecq::matrix_view(weights.data(), layout.rows, layout.columns));
      ASSERT_TRUE(done) << done.error().to_string();
      if (index == 1) {
        EXPECT_EQ(ecq::bf16(weights[3]).bits, head_weight(3).bits);
        continue;
      }
      const std::size_t row = layout.rows - 1;  // its first code times its row's scale
      const auto code = code_source(1).below(1000, 9)[block->matrices[at].first_symbol + row * layout.columns];
      const std::size_t group = row * layout.groups_across();
      EXPECT_EQ(block->matrices[at].exact, blocks[index].block.matrices[at].exact);
      for (const auto& [position, weight] : block->matrices[at].exact) EXPECT_EQ(weights[position], weight);
      EXPECT_EQ(weights[row * layout.columns], ecq::fp8_e4m3::decode(code) * float{block->matrices[at].scales[group]});
    }
  }
}

TEST(CodedContainer, IsReadAndDecoded) {
  for (const bool exact : {false, true}) expect_decoded(exact);
}

TEST(CodedContainer, DamagedExactWeightsAreRefused) {
  const ecq_test::temporary_folder folder;
  const std::string text = ecq_test::read_file(golden(golden_file[1]));
  const std::size_t at = text.find(std::string("\x57\x02\0\0\0\0\0\0", 8));  // position 599
  ASSERT_NE(at, std::string::npos);
  for (std::size_t byte = 0; byte < 12; ++byte) {
    std::string damaged = text;
    damaged[at + byte] ^= 1;
    ecq_test::write_file(folder / "damaged", damaged);
    const auto reader = ecq::container_reader::open(folder / "damaged");
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->load(0).error().code(), ecq::errc::checksum_mismatch);
    EXPECT_FALSE(reader->verify());
  }
}

}  // namespace
