#include "ecq/container/reader.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "container/sample_container.hpp"

namespace {

using ecq::container_reader;
using ecq::errc;
using ecq_test::as_text;
using ecq_test::golden;
using ecq_test::read_file;
using ecq_test::temporary_folder;
using ecq_test::write_file;

/// Returns the error of opening a container and checking everything in it.
errc outcome(const std::filesystem::path& path) {
  const auto reader = container_reader::open(path);
  if (!reader) return reader.error().code();
  const auto verified = reader->verify();
  return verified ? errc::ok : verified.error().code();
}

// Golden containers with packed scales and with plain scales.
class GoldenContainer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenContainer, IsRead) {
  const auto reader = container_reader::open(golden(GetParam()));
  ASSERT_TRUE(reader) << reader.error().to_string();
  const auto plan = ecq_test::sample_plan();
  EXPECT_EQ(reader->metadata(), plan.metadata);
  EXPECT_EQ(reader->tool(), plan.tool);
  EXPECT_EQ(reader->settings(), plan.settings);
  const auto blocks = ecq_test::sample_blocks();
  ASSERT_EQ(reader->blocks().size(), blocks.size());
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    EXPECT_EQ(reader->blocks()[index].name, blocks[index].name);
    const auto block = reader->load(index);
    ASSERT_TRUE(block) << block.error().to_string();
    EXPECT_EQ(as_text(block->stream), as_text(blocks[index].block.stream));
    ASSERT_EQ(block->matrices.size(), blocks[index].block.matrices.size());
    for (std::size_t at = 0; at < block->matrices.size(); ++at) {
      const auto& expected = blocks[index].block.matrices[at];
      const auto& matrix = block->matrices[at];
      EXPECT_EQ(matrix.name, expected.name);
      EXPECT_EQ(matrix.shape, expected.shape);
      EXPECT_EQ(matrix.layout, expected.layout);
      EXPECT_EQ(matrix.original, expected.original);
      EXPECT_EQ(matrix.format, expected.format);
      EXPECT_EQ(matrix.first_symbol, expected.first_symbol);
      ASSERT_EQ(matrix.scales.size(), expected.scales.size());
      for (std::size_t group = 0; group < expected.scales.size(); ++group) {
        EXPECT_EQ(matrix.scales[group].bits, expected.scales[group].bits);
      }
    }
    reader->release(*block);
    EXPECT_EQ(as_text(block->stream), as_text(blocks[index].block.stream));
  }
  ASSERT_EQ(reader->passed_through().size(), 3U);
  for (const auto& tensor : ecq_test::sample_tensors()) {
    const auto* entry = reader->file().find(tensor.declared.name);
    ASSERT_NE(entry, nullptr);
    std::string data;
    const auto read = reader->read(*entry, [&](std::span<const std::byte> piece) -> ecq::result<void> {
      data += as_text(piece);
      return {};
    });
    EXPECT_TRUE(read);
    EXPECT_EQ(data, tensor.data);
  }
}

INSTANTIATE_TEST_SUITE_P(ContainerReader, GoldenContainer,
                         testing::Values("container/sample.safetensors", "container/plain_scales.safetensors"),
                         [](const auto& instance) {
                           return std::string(instance.index == 0 ? "Packed" : "Plain") + "Scales";
                         });

TEST(ContainerReader, VerifyTellsHowFarItIsAndStopsWhenTold) {
  const auto reader = container_reader::open(golden("container/sample.safetensors"));
  ASSERT_TRUE(reader);
  std::uint64_t last = 0;
  std::vector<std::string> names;
  ASSERT_TRUE(reader->verify([&](std::string_view name, std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LT(done, total);
    last = done;
    names.emplace_back(name);
    return true;
  }));
  EXPECT_EQ(names.size(), 7U);  // all but the empty one and the header checksum
  const auto stopped = reader->verify([](auto, auto, auto) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "interrupted");
}

TEST(ContainerReader, EveryBitOfTheFileMatters) {
  const temporary_folder folder;
  const std::string file = read_file(golden("container/sample.safetensors"));
  ASSERT_FALSE(file.empty());
  write_file(folder / "changed", file);
  std::fstream stream(folder / "changed", std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, unsigned value) {
    stream.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(value)).flush();
  };
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      put(at, static_cast<unsigned char>(file[at]) ^ (1U << bit));
      EXPECT_NE(outcome(folder / "changed"), errc::ok) << "byte " << at << " bit " << bit;
    }
    put(at, static_cast<unsigned char>(file[at]));
  }
  EXPECT_EQ(outcome(folder / "changed"), errc::ok);
}

TEST(ContainerReader, TruncatedAnywhereIsAnError) {
  const temporary_folder folder;
  const std::string file = read_file(golden("container/sample.safetensors"));
  write_file(folder / "changed", file + "x");
  EXPECT_FALSE(container_reader::open(folder / "changed"));
  for (std::size_t size = file.size(); size-- > 0;) {
    std::filesystem::resize_file(folder / "changed", size);
    EXPECT_FALSE(container_reader::open(folder / "changed")) << size;
  }
}

TEST(ContainerReader, ChangedDataAreNamedWhenTheyAreRead) {
  const temporary_folder folder;
  std::string file = read_file(golden("container/sample.safetensors"));
  const auto original = container_reader::open(golden("container/sample.safetensors"));
  ASSERT_TRUE(original);
  const auto change = [&](std::string_view tensor) {
    std::string changed = file;
    const auto at = original->file().header_bytes().size() + original->file().find(tensor)->begin;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(folder / "changed", changed);
    return container_reader::open(folder / "changed");
  };
  {
    const auto reader = change("layers.0.conv.ecq_scale");
    ASSERT_TRUE(reader) << reader.error().to_string();
    const auto block = reader->load(0);
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().code(), errc::checksum_mismatch);
    EXPECT_NE(block.error().message().find("'layers.0.conv.ecq_scale'"), std::string::npos);
    EXPECT_TRUE(reader->load(1));
  }
  {
    const auto reader = change("norm");
    ASSERT_TRUE(reader);
    const auto ignore = [](std::span<const std::byte>) -> ecq::result<void> { return {}; };
    const auto read = reader->read(*reader->file().find("norm"), ignore);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), errc::checksum_mismatch);
  }
  {
    const auto reader = change("head.ecq_stream");
    ASSERT_TRUE(reader);
    EXPECT_TRUE(reader->load(1));
    EXPECT_EQ(reader->verify().error().code(), errc::checksum_mismatch);
  }
}

TEST(ContainerReader, TellsContainersFromOtherFiles) {
  const temporary_folder folder;
  write_file(folder / "plain", ecq_test::safetensors_text("{}"));
  write_file(folder / "half",
             ecq_test::safetensors_text(R"({"ecq.header_checksum":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                                        "12345678"));
  EXPECT_TRUE(*ecq::is_container(golden("container/sample.safetensors")));
  EXPECT_FALSE(*ecq::is_container(folder / "plain"));
  EXPECT_TRUE(*ecq::is_container(folder / "half"));
  EXPECT_FALSE(ecq::is_container(folder.path()).has_value());  // no model
  std::filesystem::copy_file(golden("container/sample.safetensors"), folder / "model.safetensors");
  EXPECT_TRUE(*ecq::is_container(folder.path()));
  EXPECT_FALSE(ecq::is_container(folder / "missing"));
  EXPECT_EQ(container_reader::open(folder / "plain").error().code(), errc::not_found);
  EXPECT_EQ(container_reader::open(folder / "half").error().code(), errc::corrupt);
  EXPECT_EQ(container_reader::open(folder / "missing").error().code(), errc::not_found);
}

/// The sample with changed description and tensors and correct checksums: only its content makes no sense.
class forgery {
 public:
  forgery() {
    const auto file = ecq::safetensors_file::open(golden("container/sample.safetensors"));
    for (const auto& tensor : file->tensors()) {
      tensors.push_back({{tensor.name, tensor.dtype, tensor.shape}, as_text(file->bytes(tensor))});
    }
    description = nlohmann::ordered_json::parse(*ecq::find_value(file->metadata(), "ecq"));
  }

  /// Returns the error of opening the file.
  errc open() const {
    const temporary_folder folder;
    std::vector<ecq::tensor_declaration> declared;
    for (const auto& tensor : tensors) declared.push_back(tensor.declared);
    const ecq::string_map metadata{{"ecq", description.dump()}};
    auto writer = ecq::safetensors_writer::create(folder / "forged", declared, metadata);
    EXPECT_TRUE(writer) << writer.error().to_string();
    const auto header = writer->seal(metadata);
    std::string checksum(8, '\0');
    ecq::store_le<std::uint64_t>(reinterpret_cast<std::byte*>(checksum.data()), ecq::xxh64(*header));
    for (const auto& tensor : tensors) {
      const bool last = tensor.declared.name == "ecq.header_checksum" && tensor.data.size() == 8;
      EXPECT_TRUE(writer->write(tensor.declared.name, ecq_test::as_bytes(last ? checksum : tensor.data)));
    }
    EXPECT_TRUE(writer->commit());
    const auto reader = container_reader::open(folder / "forged");
    if (!reader) return reader.error().code();
    for (std::size_t index = 0; index < reader->blocks().size(); ++index) {
      if (const auto block = reader->load(index); !block) return block.error().code();
    }
    return errc::ok;
  }

  ecq_test::sample_tensor& tensor(std::string_view name) {
    for (auto& each : tensors) {
      if (each.declared.name == name) return each;
    }
    return tensors.front();
  }

  void add(std::string name) {
    tensors.push_back({{name, "U8", std::vector<std::uint64_t>{1}}, "x"});
    description["checksums"][name] = ecq::detail::hex64(ecq::xxh64(ecq_test::as_bytes("x")));
  }

  std::vector<ecq_test::sample_tensor> tensors;
  nlohmann::ordered_json description;
};

template <class Change>
errc forged(Change&& change) {
  forgery file;
  change(file);
  return file.open();
}

TEST(ContainerReader, DescriptionsThatDoNotFitTheTensorsAreRefused) {
  using shape = std::vector<std::uint64_t>;
  EXPECT_EQ(forged([](forgery&) {}), errc::ok);
  EXPECT_EQ(forged([](forgery& file) { file.add("more"); }), errc::ok);
  EXPECT_EQ(forged([](forgery& file) { file.add("layers.0.up"); }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["checksums"].erase("norm"); }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["checksums"]["more"] = "0123456789abcdef"; }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"][0]["name"] = "other"; }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"][0]["matrices"][0]["name"] = "other"; }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"][0]["matrices"][0]["columns_per_group"] = 3; }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"][0]["matrices"][0]["rows_per_group"] = 2; }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"].push_back(file.description["blocks"][0]); }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["version"] = 2; }), errc::unsupported);
  EXPECT_EQ(forged([](forgery& file) { file.tensor("layers.0.ecq_stream").declared.dtype = "I8"; }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) {
              file.tensor("layers.0.ecq_stream").declared.shape = shape{2, 64};
            }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.tensor("layers.0.up.ecq_scale").declared.dtype = "I8"; }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) {
              auto& scales = file.tensor("layers.0.up.ecq_scale");
              scales.declared.shape = shape{scales.data.size(), 1};
            }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.description["blocks"][0]["matrices"][0]["columns_per_group"] = 1; }),
            errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.tensor("ecq.header_checksum").declared.dtype = "I8"; }), errc::corrupt);
  EXPECT_EQ(forged([](forgery& file) { file.tensor("ecq.header_checksum").declared.name = "ecq.other"; }),
            errc::corrupt);
}

}  // namespace
