// Whole checkpoints compressed without loss: every bit of every tensor comes back, at two thirds of the size.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::errc;
using ecq::lossless_weights;
using ecq_test::bytes_of;
using ecq_test::tensor;
using ecq_test::write_model;

std::string random_bytes(std::size_t size) {
  std::mt19937 random(5);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 0xFFU);
  return bytes;
}

/// Returns tensors of all formats in one block, some of them with random bits, NaN included.
std::vector<tensor> all_formats() {
  const auto weights = ecq_test::gaussian(64, 96, 4, 0.02F);
  return {{"embed_tokens.weight", "BF16", {64, 96}, bytes_of<ecq::bf16>(weights)},
          {"layers.0.a", "BF16", {96, 64}, bytes_of<ecq::bf16>(weights)},
          {"layers.0.b", "F32", {8, 12, 64}, bytes_of<float>(weights)},
          {"layers.0.c", "F16", {64, 96}, bytes_of<ecq::fp16>(weights)},
          {"layers.0.d", "F8_E4M3", {64, 96}, bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96))},
          {"layers.0.e", "F8_E5M2", {64, 96}, bytes_of<ecq::fp8_e5m2>(weights)},
          {"layers.0.f", "BF16", {30, 50}, random_bytes(3000)},
          {"layers.0.g", "F32", {30, 50}, random_bytes(6000)},
          {"layers.0.h", "F8_E4M3", {30, 50}, random_bytes(1500)},
          {"layers.0.norm", "BF16", {64}, random_bytes(128)},
          {"lm_head.weight", "F16", {64, 96}, bytes_of<ecq::fp16>(weights)},
          {"ids", "I64", {2, 2}, random_bytes(32)},
          {"none", "F32", {0, 4}, ""}};
}

class LosslessCheckpoint : public testing::Test {
 protected:
  void SetUp() override { write_model(original, model); }

  ecq::result<ecq::compress_report> compress(cpu backend = {},
                                             const ecq::compress_options& options = {.method = lossless_weights{}}) {
    return ecq::compress_checkpoint(backend, original, packed, options);
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path original = folder / "model.safetensors";
  std::filesystem::path packed = folder / "packed.safetensors";
  std::filesystem::path restored = folder / "restored.safetensors";
  std::vector<tensor> model = all_formats();
};

TEST_F(LosslessCheckpoint, ComesBackBitForBitByEveryCoder) {
  using ecq::coder_id;
  constexpr std::optional<coder_id> coders[] = {coder_id::rans, coder_id::tans, coder_id::huffman, coder_id::raw,
                                                std::nullopt};
  for (std::size_t way = 0; way < 2 * std::size(coders); ++way) {
    const auto report =
        compress(cpu{.threads = 2}, {.method = lossless_weights{.pairs = way % 2 != 0}, .coder = coders[way / 2]});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->passed_through, 3U);
    EXPECT_EQ(report->blocks, 7U);  // five formats in the layer, and two outside of layers
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, original);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_TRUE(verified->identical());
    EXPECT_EQ(verified->tensors.size(), model.size());
    EXPECT_EQ(verified->total.count, 0U);
    ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed));
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{.threads = 2}, packed, restored));
    const auto file = ecq::safetensors_file::open(restored);
    ASSERT_TRUE(file);
    ASSERT_EQ(file->tensors().size(), model.size());
    for (const tensor& one : model) {
      const auto* entry = file->find(one.name);
      ASSERT_NE(entry, nullptr) << one.name;
      EXPECT_EQ(entry->dtype, one.dtype);
      EXPECT_EQ(entry->shape, one.shape);
      EXPECT_EQ(ecq_test::as_text(file->bytes(*entry)), one.bytes) << one.name;
    }
  }
}

TEST_F(LosslessCheckpoint, CanBeReadInAnotherType) {
  ASSERT_TRUE(compress());
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = dtype::fp32}));
  const auto file = ecq::safetensors_file::open(restored);
  ASSERT_TRUE(file);
  const auto& entry = *file->find("layers.0.a");
  EXPECT_EQ(entry.dtype, "F32");
  const auto weights = *ecq::as_weights(entry, file->bytes(entry));
  std::vector<float> row(64);
  weights.load(95, 0, row);
  const auto expected = ecq_test::gaussian(64, 96, 4, 0.02F);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i], float(ecq::bf16(expected[95 * 64 + i])));
}

TEST_F(LosslessCheckpoint, TakesTheSelectionIntoAccount) {
  const auto report = compress({}, {.method = lossless_weights{}, .selection = {.exclude = {"*embed*", "layers.0.?"}}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->passed_through, model.size() - 1);
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, packed, original)->identical());
}

TEST_F(LosslessCheckpoint, BytesDoNotDependOnThreads) {
  ASSERT_TRUE(compress(cpu{.threads = 1}));
  const std::string one = ecq_test::read_file(packed);
  ASSERT_TRUE(compress(cpu{.threads = 3}));
  EXPECT_EQ(one, ecq_test::read_file(packed));
}

TEST_F(LosslessCheckpoint, InspectTellsRateAndExponentEntropy) {
  const auto report = compress();
  const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(report && seen);
  EXPECT_EQ(seen->bits_per_weight, report->bits_per_weight);
  EXPECT_EQ(seen->entropy, report->entropy);
  EXPECT_LT(seen->entropy, seen->bits_per_weight);
  double bits = 0;
  for (const auto& one : seen->tensors) {
    bits += one.block.empty() ? 0 : one.bits_per_weight * static_cast<double>(one.weights);
    if (one.name != "layers.0.a") continue;
    EXPECT_EQ(one.format, "bf16");
    EXPECT_EQ(one.block, "layers.0.bf16");
    EXPECT_NEAR(one.exponent_entropy, 2.6, 0.1);
    EXPECT_NEAR(one.entropy, one.exponent_entropy + 8, 1e-12);
  }
  EXPECT_NEAR(bits / static_cast<double>(seen->weights), seen->bits_per_weight, 1e-9);
}

TEST_F(LosslessCheckpoint, AChangedBitIsNoMatch) {
  ASSERT_TRUE(compress());
  auto other = model;
  other[2].bytes[77] = static_cast<char>(other[2].bytes[77] ^ 1);
  write_model(restored, other);
  const auto changed = ecq::verify_checkpoint(cpu{}, packed, restored);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), errc::checksum_mismatch);
  EXPECT_NE(changed.error().message().find("layers.0.b"), std::string::npos);
  other = model;
  other[2].dtype = "I32";  // the same bytes
  write_model(restored, other);
  EXPECT_FALSE(ecq::verify_checkpoint(cpu{}, packed, restored));
}

TEST_F(LosslessCheckpoint, RefusesACoderThatIsNone) {
  EXPECT_EQ(compress({}, {.method = lossless_weights{}, .coder = static_cast<ecq::coder_id>(77)}).error().code(),
            errc::unsupported);
  EXPECT_EQ(folder.count(), 1U);
}

/// Returns a file that none of our writers would make: spaces and escapes in the header, metadata after the tensors,
/// tensors in another order than their data, and data that are not aligned.
std::string foreign_file() {
  const std::string header =
      R"( {"b\u002e2" : {"shape":[40,50],"dtype":"BF16","data_offsets":[ 5003, 9003 ]},)"
      "\n\t"
      R"("odd":{"dtype":"U8","shape":[5003],"data_offsets":[0,5003]}, "norm":{"dtype":"F32","shape":[3],)"
      R"("data_offsets":[9003,9015]},"none":{"dtype":"F16","shape":[0,7],"data_offsets":[9003,9003]},)"
      R"("__metadata__":{"z":"1","a":"\u00e9 \/"} }   )";
  const auto weights = ecq_test::gaussian(40, 50, 3, 0.02F);
  return ecq_test::safetensors_text(header.substr(1),
                                    random_bytes(5003) + bytes_of<ecq::bf16>(weights) + random_bytes(12));
}

TEST_F(LosslessCheckpoint, TheFileComesBackByteForByte) {
  for (const bool foreign : {false, true}) {
    if (foreign) ecq_test::write_file(original, foreign_file());
    const auto report = compress();
    ASSERT_TRUE(report) << report.error().to_string();
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, original);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_TRUE(verified->same_file);
    const auto decoded = ecq::decompress_checkpoint(cpu{.threads = 2}, packed, restored);
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_TRUE(decoded->same_header);
    EXPECT_EQ(decoded->output_bytes, std::filesystem::file_size(original));
    EXPECT_TRUE(ecq_test::read_file(original) == ecq_test::read_file(restored));
  }
  // The same tensors in a file with another header.
  const auto read = ecq::checkpoint::open(original);
  ASSERT_TRUE(read);
  std::vector<tensor> same;
  for (const auto& entry : read->tensors()) {
    same.push_back({entry.name, entry.dtype, entry.shape, std::string(ecq_test::as_text(read->bytes(entry)))});
  }
  write_model(restored, same);
  const auto verified = ecq::verify_checkpoint(cpu{}, packed, restored);
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_TRUE(verified->identical());
  EXPECT_FALSE(verified->same_file);
}

TEST_F(LosslessCheckpoint, TensorsKeepTheirOrderInEveryMode) {
  ecq_test::write_file(original, foreign_file());
  const auto names = [](const std::filesystem::path& path) {
    std::string all;
    const auto file = ecq::safetensors_file::open(path);
    for (const auto& entry : file->tensors()) all += entry.name + " ";
    return all;
  };
  ASSERT_TRUE(compress({}, {.method = ecq::entquant{.lambda = 5.0}}));
  const auto same_types = ecq::decompress_checkpoint(cpu{}, packed, restored);
  ASSERT_TRUE(same_types);
  EXPECT_TRUE(same_types->same_header);
  EXPECT_EQ(names(restored), names(original));
  EXPECT_EQ(std::filesystem::file_size(restored), std::filesystem::file_size(original));
  EXPECT_FALSE(ecq::verify_checkpoint(cpu{}, packed, original)->same_file);
  // With other types, wide elements come first, so that all are aligned.
  const auto wider = ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = dtype::fp32});
  ASSERT_TRUE(wider);
  EXPECT_FALSE(wider->same_header);
  EXPECT_EQ(names(restored), "b.2 norm none odd ");
}

TEST_F(LosslessCheckpoint, AnOriginalHeaderThatIsNoneIsAnError) {
  ecq_test::write_file(original, foreign_file());
  const auto make = [&](std::string_view header) -> ecq::result<ecq::decompress_report> {
    ecq::container_plan plan;
    plan.original_header = std::as_bytes(std::span(header));
    plan.pass_through = {{"a", "U8", std::vector<std::uint64_t>{2}}};
    auto writer = ecq::container_writer::create(packed, plan);
    EXPECT_TRUE(writer);
    EXPECT_TRUE(writer->write_tensor("a", std::as_bytes(std::span("xy", 2))));
    EXPECT_TRUE(writer->commit());
    return ecq::decompress_checkpoint(cpu{}, packed, restored);
  };
  const auto text = [](std::string_view json) { return ecq_test::safetensors_text(json); };
  const auto good = make(text(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]} } )"));
  ASSERT_TRUE(good) << good.error().to_string();
  EXPECT_TRUE(good->same_header);
  // The header of other tensors is not the header of this file, which is written nevertheless.
  for (const char* other : {R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})",
                            R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "{}"}) {
    const auto made = make(text(other));
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_FALSE(made->same_header);
    EXPECT_TRUE(ecq::safetensors_file::open(restored)->find("a") != nullptr);
  }
  std::filesystem::remove(restored);
  for (const std::string& bad :
       {std::string("x"), text("no JSON"), text(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})"),
        text("{}") + "x", std::string(8, '\xff')}) {
    const auto made = make(bad);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message().find("ecq.original_header"), std::string::npos) << made.error().message();
    EXPECT_FALSE(std::filesystem::exists(restored));
  }
}

TEST(LosslessContainer, EveryFlippedBitIsFound) {
  const ecq_test::temporary_folder folder;
  write_model(folder / "model", {{"w", "BF16", {6, 5}, random_bytes(60)}});
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, folder / "model", folder / "packed", {.method = lossless_weights{}}));
  const std::string good = ecq_test::read_file(folder / "packed");
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(static_cast<unsigned char>(bad[byte]) ^ (1U << byte % 8));
    ecq_test::write_file(folder / "damaged", bad);
    ASSERT_FALSE(ecq::verify_checkpoint(cpu{}, folder / "damaged")) << byte;
    ASSERT_FALSE(ecq::decompress_checkpoint(cpu{}, folder / "damaged", folder / "out")) << byte;
  }
}

// BF16 weights with a standard deviation of 0.02, like those of trained layers: two thirds of the file remain.
TEST(LosslessContainer, ABf16ModelLosesAThirdOfItsSize) {
  const ecq_test::temporary_folder folder;
  std::vector<tensor> model;
  for (const char* layer : {"0", "1"}) {
    for (const char* name : {"q_proj", "up_proj"}) {
      const auto weights = ecq_test::gaussian(512, 1024, static_cast<std::uint64_t>(layer[0] + name[0]), 0.02F);
      model.push_back({std::string("layers.") + layer + "." + name, "BF16", {512, 1024}, bytes_of<ecq::bf16>(weights)});
    }
    model.push_back({std::string("layers.") + layer + ".norm", "BF16", {1024}, random_bytes(2048)});
  }
  write_model(folder / "model", model);
  const auto report =
      ecq::compress_checkpoint(cpu{}, folder / "model", folder / "packed", {.method = lossless_weights{}});
  ASSERT_TRUE(report);
  const double share = static_cast<double>(report->file_bytes) / static_cast<double>(report->input_bytes);
  EXPECT_GT(share, 0.66);
  EXPECT_LT(share, 0.69);
}

}  // namespace
