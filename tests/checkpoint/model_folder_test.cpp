// Models in folders: every file becomes a container of its name, comes back byte for byte, and nothing else is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/io/checkpoint.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::entquant;
using ecq::errc;
using ecq::lossless_weights;
using ecq_test::bytes_of;
using ecq_test::read_file;
using ecq_test::tensor;
using ecq_test::write_file;
using ecq_test::write_model;

/// The content of all files below `folder` by their names.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  }
  return all;
}

class ModelFolder : public testing::Test {
 protected:
  /// Two shards, of which a layer lies in both, with an index and what else such folders hold.
  void SetUp() override {
    std::filesystem::create_directories(in / "tokenizer");
    std::filesystem::create_directories(in / ".cache");
    const auto weights = [](std::uint64_t seed) {
      return bytes_of<ecq::bf16>(ecq_test::gaussian(96, 128, seed, 0.02F));
    };
    write_model(in / "model-1.safetensors",
                {{"embed_tokens.weight", "BF16", {96, 128}, weights(1)},
                 {"layers.0.up.weight", "BF16", {96, 128}, weights(2)},
                 {"layers.0.norm.weight", "BF16", {5}, std::string(10, 'n')}},
                {{"format", "pt"}, {"of", "one"}});
    write_model(in / "model-2.safetensors",
                {{"layers.0.down.weight", "BF16", {96, 128}, weights(3)},
                 {"layers.1.up.weight", "BF16", {96, 128}, weights(4)},
                 {"odd", "U8", {3}, "abc"}},
                {{"of", "two"}});
    write_file(in / "model.safetensors.index.json",
               R"({ "metadata": {"total_size": 98317}, "weight_map": {
                 "layers.1.up.weight": "model-2.safetensors", "layers.0.down.weight": "model-2.safetensors",
                 "odd": "model-2.safetensors", "embed_tokens.weight": "model-1.safetensors",
                 "layers.0.up.weight": "model-1.safetensors", "layers.0.norm.weight": "model-1.safetensors"}})");
    write_file(in / "config.json", "{\"a\": 1}\n");
    write_file(in / "tokenizer" / "vocab.txt", "the\nof\n");
    write_file(in / "empty", "");
    write_file(in / ".cache" / "hidden", "x");
  }

  ecq::result<ecq::compress_report> compress(const ecq::compress_options& how) {
    return ecq::compress_folder(cpu{.threads = 2}, in, packed, how);
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path in = folder / "model", packed = folder / "packed", restored = folder / "restored";
};

TEST_F(ModelFolder, ComesBackFileByFile) {
  const auto report = compress({.method = lossless_weights{}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->tensors.size(), 4U);
  EXPECT_EQ(report->passed_through, 2U);
  EXPECT_LT(report->file_bytes, report->input_bytes);
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_TRUE(verified->same_file);
  EXPECT_EQ(verified->tensors.size(), 6U);
  const auto decoded = ecq::decompress_folder(cpu{}, packed, restored);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_TRUE(decoded->same_header);
  EXPECT_EQ(decoded->tensors, 4U);
  auto expected = files_of(in);
  expected.erase(".cache/hidden");
  EXPECT_TRUE(files_of(restored) == expected);
}

TEST_F(ModelFolder, OneRateHoldsForAllFilesTogether) {
  const ecq::compress_options how{.method = entquant{.target_bits = 3.0}};
  const auto report = compress(how);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_NEAR(report->bits_per_weight, 3.0, 0.02);
  const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_TRUE(seen->container);
  EXPECT_EQ(seen->bits_per_weight, report->bits_per_weight);
  EXPECT_EQ(seen->file_bytes, report->file_bytes);
  EXPECT_EQ(seen->tensors.size(), 6U);
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_FALSE(verified->same_file);
  EXPECT_GT(verified->total.sqnr_db(), 10.0);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed / "model.safetensors.index.json", restored));
  const auto before = ecq::checkpoint::open(in), after = ecq::checkpoint::open(restored);
  ASSERT_TRUE(before && after) << after.error().to_string();
  for (std::size_t i = 0; i < before->tensors().size(); ++i) {
    EXPECT_EQ(after->tensors()[i].name, before->tensors()[i].name);
    EXPECT_EQ(after->tensors()[i].begin, before->tensors()[i].begin);
  }
  // The bytes do not depend on threads.
  const auto first = files_of(packed);
  ASSERT_TRUE(ecq::compress_folder(cpu{.threads = 1}, in, packed, how));
  EXPECT_TRUE(files_of(packed) == first);
}

TEST_F(ModelFolder, OfOneFileNeedsNoIndex) {
  std::filesystem::remove(in / "model.safetensors.index.json");
  std::filesystem::remove(in / "model-1.safetensors");
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, in)->same_file);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  EXPECT_EQ(read_file(restored / "model-2.safetensors"), read_file(in / "model-2.safetensors"));
  EXPECT_EQ(read_file(restored / "tokenizer" / "vocab.txt"), "the\nof\n");
}

TEST_F(ModelFolder, ScalesThatWereAppliedLeaveIndexAndConfiguration) {
  const auto codes = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96, 7, 40.0F));
  write_model(in / "model-1.safetensors", {{"layers.0.up.weight", "F8_E4M3", {64, 96}, codes}});
  write_model(in / "model-2.safetensors", {{"layers.0.up.weight_scale_inv", "F32", {1, 1}, bytes_of<float>({0.001F})},
                                           {"layers.0.norm.weight", "BF16", {5}, std::string(10, 'n')}});
  write_file(in / "model.safetensors.index.json", R"({"weight_map": {"layers.0.up.weight": "model-1.safetensors",
    "layers.0.up.weight_scale_inv": "model-2.safetensors", "layers.0.norm.weight": "model-2.safetensors"}})");
  write_file(in / "config.json", R"({"b": [1.5], "quantization_config": {"quant_method": "fp8"}, "c": "}"})");
  const auto report = compress({.method = entquant{.target_bits = 4.0}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->unpacked, 1U);
  EXPECT_EQ(read_file(packed / "config.json"), R"({"b": [1.5], "c": "}"})");
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_LT(verified->total.relative_l1(), 0.2);
  ASSERT_TRUE(ecq::decompress_folder(cpu{}, packed, restored));
  const auto after = ecq::checkpoint::open(restored);
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_EQ(after->tensors().size(), 2U);
  EXPECT_EQ(after->find("layers.0.up.weight")->dtype, "BF16");
}

// What many machines make, each its part at one lambda, is what one machine makes of the whole folder.
TEST_F(ModelFolder, PartsAddUpToTheWhole) {
  const auto lambda = ecq::find_lambda_of(cpu{}, in, {.method = entquant{.target_bits = 3.0}});
  ASSERT_TRUE(lambda) << lambda.error().to_string();
  ecq::compress_options how{.method = entquant{.lambda = *lambda}};
  const auto whole = compress(how);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_NEAR(whole->bits_per_weight, 3.0, 0.1);
  for (const std::size_t count : {1U, 2U, 3U}) {
    std::filesystem::remove_all(restored);
    std::uint64_t weights = 0;
    for (std::size_t index = count; index-- > 0;) {
      how.part = {index, count};
      const auto part = ecq::compress_folder(cpu{}, in, restored, how);
      ASSERT_TRUE(part) << part.error().to_string();
      weights += part->weights;
    }
    EXPECT_EQ(weights, whole->weights);
    EXPECT_TRUE(files_of(restored) == files_of(packed)) << count;
  }
  how.part = {2, 2};
  EXPECT_EQ(compress(how).error().code(), errc::invalid_argument);
  how.part = {0, 2};
  how.method = entquant{.target_bits = 3.0};
  EXPECT_EQ(compress(how).error().code(), errc::invalid_argument);
  EXPECT_EQ(*ecq::find_lambda_of(cpu{}, in, {.method = lossless_weights{}}), 0.0);
}

TEST_F(ModelFolder, FoldersThatLieInOneAnotherAreRefused) {
  const ecq::compress_options how{.method = lossless_weights{}};
  const auto before = files_of(folder.path());
  for (const auto& out : {in, in / "packed", in / "." / "x" / "..", folder.path(), in / "tokenizer"}) {
    const auto refused = ecq::compress_folder(cpu{}, in, out, how);
    ASSERT_FALSE(refused) << out;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << refused.error().to_string();
  }
  EXPECT_TRUE(files_of(folder.path()) == before);
  ASSERT_TRUE(compress(how));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, packed / "out"));
  EXPECT_FALSE(ecq::compress_folder(cpu{}, packed, restored, how));  // compressed already
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, in, restored));         // no containers
}

TEST_F(ModelFolder, AMissingOrDamagedFileIsNamed) {
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  std::string bytes = read_file(packed / "model-2.safetensors");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(packed / "model-2.safetensors", bytes);
  EXPECT_FALSE(ecq::verify_checkpoint(cpu{}, packed));
  EXPECT_FALSE(ecq::decompress_folder(cpu{}, packed, restored));
  std::filesystem::remove(packed / "model-2.safetensors");
  const auto missing = ecq::verify_checkpoint(cpu{}, packed, in);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("model-2"), std::string::npos);
  std::filesystem::remove_all(packed);
  std::filesystem::remove(in / "model-1.safetensors");
  EXPECT_EQ(compress({.method = lossless_weights{}}).error().code(), errc::not_found);
}

}  // namespace
