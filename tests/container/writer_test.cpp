#include "ecq/container/writer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "container/sample_container.hpp"
#include "ecq/base/checksum.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/safetensors.hpp"

namespace {

using ecq::container_plan;
using ecq::container_writer;
using ecq::errc;
using ecq_test::as_bytes;
using ecq_test::as_text;
using ecq_test::read_file;
using ecq_test::sample_plan;
using ecq_test::temporary_folder;

TEST(ContainerWriter, WritesTheBytesItAlwaysWrote) {
  const temporary_folder folder;
  const auto written = ecq_test::write_sample(folder / "out");
  ASSERT_TRUE(written) << written.error().to_string();
  const auto golden = ecq_test::golden("container/sample.safetensors");
  if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) ecq_test::write_file(golden, read_file(folder / "out"));
  EXPECT_TRUE(read_file(folder / "out") == read_file(golden));
  EXPECT_EQ(folder.count(), 1U);
}

TEST(ContainerWriter, AnyReaderOfSafetensorsFindsTheTensors) {
  const temporary_folder folder;
  ASSERT_TRUE(ecq_test::write_sample(folder / "out"));
  const auto file = ecq::safetensors_file::open(folder / "out");
  ASSERT_TRUE(file) << file.error().to_string();
  for (const auto& tensor : ecq_test::sample_tensors()) {
    const auto* entry = file->find(tensor.declared.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dtype, tensor.declared.dtype);
    EXPECT_EQ(entry->shape, *tensor.declared.shape);
    EXPECT_EQ(as_text(file->bytes(*entry)), tensor.data);
  }
  for (const auto& each : ecq_test::sample_blocks()) {
    const auto* stream = file->find(each.name + ".ecq_stream");
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(as_text(file->bytes(*stream)), as_text(each.block.stream));
    for (const auto& matrix : each.block.matrices) {
      const auto* scales = file->find(matrix.name + ".ecq_scale");
      ASSERT_NE(scales, nullptr);
      EXPECT_EQ(scales->dtype, "U8");
      EXPECT_EQ(scales->size_bytes(), ecq::packed_scale_bytes(matrix.scales));
    }
  }
  for (const auto& tensor : file->tensors()) {
    const auto alignment = ecq::find_safetensors_dtype(tensor.dtype)->bits / 8;
    EXPECT_EQ((file->header_bytes().size() + tensor.begin) % alignment, 0U) << tensor.name;
  }
  EXPECT_EQ(file->tensors().back().name, "ecq.header_checksum");
  EXPECT_EQ(ecq::load_le<std::uint64_t>(file->bytes(file->tensors().back()).data()), ecq::xxh64(file->header_bytes()));
}

TEST(ContainerWriter, AlignsTablesBehindScalesOfOddSizes) {
  const temporary_folder folder;
  container_plan plan = sample_plan();
  auto blocks = ecq_test::sample_blocks();
  std::size_t tables = 0;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    for (std::size_t at = 0; at < blocks[index].block.matrices.size(); ++at) {
      auto& matrix = blocks[index].block.matrices[at];
      if (matrix.lossless()) continue;
      matrix.format = ecq::dtype::table;
      matrix.values.assign(256, 1.5F);
      matrix.zero = 0;
      plan.blocks[index].matrices[at].table = true;
      ++tables;
    }
  }
  ASSERT_GE(tables, 2U);
  auto writer = container_writer::create(folder / "out", std::move(plan));
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (const auto& [name, block] : blocks) ASSERT_TRUE(writer->write_block(name, block));
  for (const auto& [declared, data] : ecq_test::sample_tensors()) {
    ASSERT_TRUE(writer->write_tensor(declared.name, as_bytes(data)));
  }
  ASSERT_TRUE(writer->commit());
  const auto file = ecq::safetensors_file::open(folder / "out");
  ASSERT_TRUE(file) << file.error().to_string();
  for (const auto& tensor : file->tensors()) {
    if (tensor.dtype != "F32" || !tensor.name.ends_with(".ecq_values")) continue;
    EXPECT_EQ((file->header_bytes().size() + tensor.begin) % 4, 0U) << tensor.name;
    --tables;
  }
  EXPECT_EQ(tables, 0U);
  EXPECT_TRUE(ecq::container_reader::open(folder / "out"));
}

TEST(ContainerWriter, RefusesPlansThatCollide) {
  const temporary_folder folder;
  const auto message = [&](auto&& change) -> std::string {
    container_plan plan = sample_plan();
    change(plan);
    const auto writer = container_writer::create(folder / "out", std::move(plan));
    if (writer) return "";
    EXPECT_EQ(writer.error().code(), errc::invalid_argument);
    return writer.error().message();
  };
  using shape = std::vector<std::uint64_t>;
  const auto with_tensor = [&](std::string name) {
    return message([&](container_plan& plan) { plan.pass_through.push_back({name, "U8", shape{1}}); });
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(with_tensor("other"), "");
  EXPECT_TRUE(has(with_tensor("norm"), "'norm'"));
  EXPECT_TRUE(has(with_tensor("layers.0.up"), "'layers.0.up'"));
  EXPECT_TRUE(has(with_tensor("layers.0.ecq_stream"), "'layers.0.ecq_stream'"));
  EXPECT_TRUE(has(with_tensor("head.ecq_scale"), "'head.ecq_scale'"));
  EXPECT_TRUE(has(with_tensor("ecq.header_checksum"), "'ecq.header_checksum'"));
  EXPECT_TRUE(has(with_tensor("ecq.original_header"), "'ecq.original_header'"));
  EXPECT_TRUE(has(with_tensor("\xff"), "UTF-8"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.metadata.push_back({"ecq", ""}); }), "'ecq'"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.metadata.push_back({"format", ""}); }), "'format'"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.blocks.push_back(plan.blocks[0]); }), "'layers.0"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.blocks[1].name = "layers.0"; }), "'layers.0'"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.blocks[1].matrices.clear(); }), "'head'"));
  for (const std::string name : {"layers.0.ecq_stream", "head.ecq_stream", "ecq.header_checksum"}) {
    EXPECT_TRUE(has(message([&](container_plan& plan) { plan.blocks[1].matrices[0].name = name; }), "'" + name + "'"));
  }
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.blocks[1].name = "\xff"; }), "UTF-8"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.tool = "\xff"; }), "UTF-8"));
  EXPECT_TRUE(has(message([](container_plan& plan) { plan.pass_through[0].shape.reset(); }), "'norm'"));
  EXPECT_EQ(folder.count(), 0U);
}

TEST(ContainerWriter, NamesWhatIsMissing) {
  const temporary_folder folder;
  auto writer = container_writer::create(folder / "out", sample_plan());
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (const auto& [name, block] : ecq_test::sample_blocks()) ASSERT_TRUE(writer->write_block(name, block));
  for (const auto& [declared, data] : ecq_test::sample_tensors()) {
    const auto refused = writer->commit();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_NE(refused.error().message().find("'" + declared.name + "'"), std::string::npos) << declared.name;
    ASSERT_TRUE(writer->write_tensor(declared.name, ecq_test::as_bytes(data)));
  }
  EXPECT_TRUE(writer->commit());
  EXPECT_TRUE(writer->commit());  // done already
}

TEST(ContainerWriter, RefusesWhatIsNotInThePlan) {
  const temporary_folder folder;
  auto writer = container_writer::create(folder / "out", sample_plan());
  ASSERT_TRUE(writer) << writer.error().to_string();
  const auto blocks = ecq_test::sample_blocks();
  const auto refused = [&](std::string_view name, auto&& change) {
    ecq::packed_block block = blocks[0].block;
    change(block);
    const auto outcome = writer->write_block(name, block);
    return !outcome && outcome.error().code() == errc::invalid_argument;
  };
  const auto same = [](ecq::packed_block&) {};
  EXPECT_TRUE(refused("nobody", same));
  EXPECT_TRUE(refused("head", same));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices.pop_back(); }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { std::swap(block.matrices[0], block.matrices[1]); }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].shape = {4, 3}; }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].layout.columns = 5; }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].layout.rows_per_group = 0; }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].scales.pop_back(); }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].exact.push_back({3, 1.0F}); }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[0].format = ecq::dtype::bf16; }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[1].first_symbol = 11; }));
  EXPECT_TRUE(refused("layers.0", [](auto& block) { block.matrices[1].first_symbol = ~std::uint64_t{0}; }));
  EXPECT_FALSE(writer->write_tensor("nobody", {}));
  EXPECT_FALSE(writer->commit());
}

TEST(ContainerWriter, NothingAppearsBeforeEverythingIsThere) {
  const temporary_folder folder;
  {
    auto writer = container_writer::create(folder / "out", sample_plan());
    ASSERT_TRUE(writer);
    const auto blocks = ecq_test::sample_blocks();
    ASSERT_TRUE(writer->write_block("head", blocks[1].block));
    EXPECT_FALSE(writer->write_block("head", blocks[1].block));
    EXPECT_FALSE(writer->commit());
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  EXPECT_EQ(folder.count(), 0U);
}

TEST(ContainerWriter, GivesInputBackPieceByPiece) {
  const temporary_folder folder;
  container_plan plan;
  const std::string data(9U << 20, 'x');
  plan.pass_through.push_back({"big", "U8", std::vector<std::uint64_t>{data.size()}});
  auto writer = container_writer::create(folder / "out", std::move(plan));
  ASSERT_TRUE(writer);
  std::vector<std::size_t> pieces;
  ASSERT_TRUE(writer->write_tensor("big", as_bytes(data), [&](auto piece) { pieces.push_back(piece.size()); }));
  EXPECT_EQ(pieces, (std::vector<std::size_t>{4U << 20, 4U << 20, 1U << 20}));
  ASSERT_TRUE(writer->commit());
  EXPECT_EQ(writer->size_bytes(), std::filesystem::file_size(folder / "out"));
}

}  // namespace
