// Whole checkpoints compressed by EntroLLM: each tensor has its own grid and stream, and all share one code.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
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
#include "ecq/stream/encoded_stream.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::coder_id;
using ecq::cpu;
using ecq::dtype;
using ecq::entrollm;
using ecq::errc;

struct tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> weights;
};

std::vector<float> shifted(std::vector<float> weights, float offset, float factor = 1) {
  for (float& weight : weights) weight = weight * factor + offset;
  return weights;
}

/// Returns tensors of both signs, of one sign, of zeros and of a few weights.
std::vector<tensor> mixed_model() {
  return {{"embed.weight", {8, 8}, ecq_test::gaussian(8, 8)},
          {"layers.0.a", {96, 128}, ecq_test::gaussian(96, 128, 1)},
          {"layers.0.b", {64, 8, 8}, ecq_test::student_t4(64, 64, 2, 3)},
          {"layers.0.norm", {64}, ecq_test::gaussian(1, 64)},
          {"layers.1.positive", {48, 64}, shifted(ecq_test::gaussian(48, 64, 3), 0.5F)},
          {"layers.1.negative", {48, 64}, shifted(ecq_test::gaussian(48, 64, 4), -1e3F, 100)},
          {"zeros", {32, 32}, std::vector<float>(1024, 0.0F)},
          {"one", {1, 1}, {-0.125F}}};
}

/// Writes all tensors as FP32.
void write_model(const std::filesystem::path& path, const std::vector<tensor>& model) {
  std::vector<ecq_test::tensor> written;
  for (const tensor& one : model)
    written.push_back({one.name, "F32", one.shape, ecq_test::bytes_of<float>(one.weights)});
  ecq_test::write_model(path, written);
}

class EntrollmCheckpoint : public testing::Test {
 protected:
  ecq::result<ecq::compress_report> compress(const std::vector<tensor>& model, dtype format = dtype::uint8,
                                             std::optional<coder_id> coder = coder_id::huffman, cpu backend = {},
                                             bool keep_non_finite = false) {
    write_model(original, model);
    return ecq::compress_checkpoint(
        backend, original, packed,
        {.method = {format, entrollm{}}, .coder = coder, .keep_non_finite = keep_non_finite});
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path original = folder / "model.safetensors";
  std::filesystem::path packed = folder / "packed.safetensors";
  std::filesystem::path restored = folder / "restored.safetensors";
};

TEST_F(EntrollmCheckpoint, WeightsComeBackWithinHalfAStepByEveryCoder) {
  const auto model = mixed_model();
  for (const dtype format : {dtype::uint8, dtype::uint4}) {
    for (const std::optional<coder_id> coder :
         {std::optional(coder_id::huffman), std::optional(coder_id::rans), std::optional(coder_id::tans),
          std::optional(coder_id::huffman_gaps), std::optional<coder_id>()}) {
      const auto report = compress(model, format, coder, cpu{.threads = 2});
      ASSERT_TRUE(report) << report.error().to_string();
      EXPECT_EQ(report->blocks, 6U);
      EXPECT_EQ(report->passed_through, 2U);
      ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, original));
      ASSERT_TRUE(ecq::decompress_checkpoint(cpu{.threads = 2}, packed, restored));
      const auto container = ecq::container_reader::open(packed);
      const auto file = ecq::safetensors_file::open(restored);
      ASSERT_TRUE(container && file);
      for (std::size_t index = 0; index < container->blocks().size(); ++index) {
        const auto block = container->load(index);
        ASSERT_TRUE(block);
        ASSERT_EQ(block->matrices.size(), 1U);
        const ecq::packed_matrix& matrix = block->matrices[0];
        EXPECT_EQ(container->blocks()[index].name, matrix.name);
        const auto& source =
            *std::find_if(model.begin(), model.end(), [&](const tensor& one) { return one.name == matrix.name; });
        const auto [least, most] = std::minmax_element(source.weights.begin(), source.weights.end());
        ASSERT_EQ(matrix.scales.size(), 1U);
        const float scale = matrix.scales[0];
        EXPECT_EQ(matrix.zero, *least < 0 && *most > 0 ? *least : 0.0F) << matrix.name;
        EXPECT_EQ(scale < 0, *least < 0 && *most <= 0) << matrix.name;
        const auto& entry = *file->find(matrix.name);
        EXPECT_EQ(entry.shape, source.shape);
        std::vector<float> values(matrix.layout.columns);
        const auto decoded = *ecq::as_weights(entry, file->bytes(entry));
        for (std::size_t row = 0; row < matrix.layout.rows; ++row) {
          decoded.load(row, 0, values);
          for (std::size_t column = 0; column < values.size(); ++column) {
            const float weight = source.weights[row * values.size() + column];
            ASSERT_LE(std::fabs(values[column] - weight), std::fabs(scale) * 0.5001F) << matrix.name;
          }
        }
      }
    }
  }
}

TEST_F(EntrollmCheckpoint, AllStreamsHaveTheOneTable) {
  for (const coder_id coder : {coder_id::huffman, coder_id::rans, coder_id::tans}) {
    ASSERT_TRUE(compress(mixed_model(), dtype::uint4, coder));
    const auto container = ecq::container_reader::open(packed);
    ASSERT_TRUE(container);
    std::vector<std::byte> tables;
    std::size_t coded = 0;
    for (std::size_t index = 0; index < container->blocks().size(); ++index) {
      const auto block = container->load(index);
      const auto stream = ecq::encoded_stream::parse(block->stream);
      ASSERT_TRUE(stream);
      if (stream->coder() == coder_id::raw) continue;  // too small for a table
      EXPECT_EQ(stream->coder(), coder);
      const auto section = stream->header().bytes_of(stream->bytes(), ecq::section_kind::tables);
      if (coded++ == 0) tables.assign(section.begin(), section.end());
      EXPECT_TRUE(std::equal(section.begin(), section.end(), tables.begin(), tables.end()));
    }
    EXPECT_GE(coded, 4U);
  }
}

TEST_F(EntrollmCheckpoint, TheCoderIsChosenForTheWholeModel) {
  // Models with few codes per stream, where tables matter, and with many.
  std::vector<tensor> small;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    small.push_back({"small." + std::to_string(seed), {64, 64}, ecq_test::gaussian(64, 64, seed)});
  }
  for (const auto& model : {small, mixed_model(), {{"large", {512, 256}, ecq_test::student_t4(512, 256)}}}) {
    for (const dtype format : {dtype::uint8, dtype::uint4}) {
      const auto bytes = [&](std::optional<coder_id> coder) { return compress(model, format, coder)->file_bytes; };
      const auto best = (std::min)({bytes(coder_id::rans), bytes(coder_id::tans), bytes(coder_id::huffman)});
      EXPECT_LE(bytes(std::nullopt), best + best / 200);
    }
  }
}

TEST_F(EntrollmCheckpoint, BytesDoNotDependOnThreads) {
  ASSERT_TRUE(compress(mixed_model(), dtype::uint4, std::nullopt, cpu{.threads = 1}));
  const std::string one = ecq_test::read_file(packed);
  ASSERT_TRUE(compress(mixed_model(), dtype::uint4, std::nullopt, cpu{.threads = 3}));
  EXPECT_EQ(one, ecq_test::read_file(packed));
}

TEST_F(EntrollmCheckpoint, TakesLittleMoreThanTheEntropyOfAllCodes) {
  const std::vector<tensor> model = {{"a", {512, 512}, ecq_test::gaussian(512, 512, 7)},
                                     {"b", {256, 512}, ecq_test::student_t4(256, 512, 8)}};
  for (const dtype format : {dtype::uint8, dtype::uint4}) {
    for (const std::optional<coder_id> coder : {std::optional(coder_id::huffman), std::optional<coder_id>()}) {
      write_model(original, model);
      const auto report = ecq::compress_checkpoint(cpu{}, original, packed,
                                                   {.method = {format, entrollm{}}, .coder = coder, .chunk_bits = 16});
      ASSERT_TRUE(report) << report.error().to_string();
      EXPECT_GT(report->joint_entropy, report->entropy);
      EXPECT_GE(report->bits_per_weight, report->joint_entropy);
      EXPECT_LT(report->bits_per_weight, report->joint_entropy + 0.1);
      const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
      ASSERT_TRUE(seen) << seen.error().to_string();
      EXPECT_EQ(seen->bits_per_weight, report->bits_per_weight);
      EXPECT_EQ(seen->tensors[0].format, to_string(format));
      EXPECT_EQ(seen->tensors[0].unique_values, report->tensors[0].unique_values);
      // The weights are bell-shaped around 0, so the code nearest to 0 is frequent, unlike the smallest code.
      const double share = seen->tensors[1].sparsity;
      EXPECT_GT(share, format == dtype::uint8 ? 0.02 : 0.3);
      EXPECT_EQ(share, report->tensors[1].sparsity);
    }
  }
}

TEST_F(EntrollmCheckpoint, ErrorsNameTheTensor) {
  auto model = mixed_model();
  model[2].weights[5] = std::numeric_limits<float>::quiet_NaN();
  const auto refused = compress(model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::non_finite);
  EXPECT_NE(refused.error().message().find("layers.0.b"), std::string::npos);
  const auto kept = compress(model, dtype::uint8, coder_id::huffman, {}, true);
  ASSERT_TRUE(kept) << kept.error().to_string();
  EXPECT_EQ(kept->passed_through, 3U);
  model[2].weights[5] = (std::numeric_limits<float>::max)();
  const auto too_far = compress(model);
  ASSERT_FALSE(too_far);
  EXPECT_EQ(too_far.error().code(), errc::invalid_argument);
  EXPECT_NE(too_far.error().message().find("layers.0.b"), std::string::npos);
}

TEST_F(EntrollmCheckpoint, OptionsAreChecked) {
  write_model(original, mixed_model());
  const auto code_with = [&](const ecq::compress_options& options) {
    const auto done = ecq::compress_checkpoint(cpu{}, original, packed, options);
    return done ? errc::ok : done.error().code();
  };
  EXPECT_EQ(code_with({.method = {dtype::uint4, entrollm{}}}), errc::ok);
  EXPECT_EQ(code_with({.method = {dtype::int8, entrollm{}}}), errc::invalid_argument);
  EXPECT_EQ(code_with({.method = {dtype::bf16, entrollm{}}}), errc::invalid_argument);
  EXPECT_EQ(code_with({.method = {dtype::uint8, entrollm{}}, .coder = static_cast<coder_id>(77)}), errc::unsupported);
  EXPECT_EQ(ecq::compress_checkpoint(cpu{}, original, packed, {.method = {dtype::uint8, ecq::entquant{.lambda = 3.0}}})
                .error()
                .code(),
            errc::invalid_argument);
}

TEST_F(EntrollmCheckpoint, ProgressNeverFallsWithinAStageAndMayStopTheWork) {
  write_model(original, mixed_model());
  std::string stage;
  std::uint64_t done = 0;
  std::vector<std::string> stages;
  const ecq::compress_options how{.method = entrollm{}};
  const auto watch = [&](const ecq::progress& step) {
    if (stage != step.stage) {
      stage = step.stage;
      stages.push_back(stage);
      done = 0;
    }
    EXPECT_GE(step.done, done);
    EXPECT_LE(step.done, step.total);
    done = step.done;
    return true;
  };
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, original, packed, how, watch));
  EXPECT_EQ(stages, (std::vector<std::string>{"counting codes", "compressing"}));
  const auto stop = [](const ecq::progress& step) { return step.done == 0; };
  EXPECT_FALSE(ecq::compress_checkpoint(cpu{}, original, restored, how, stop));
  EXPECT_FALSE(std::filesystem::exists(restored));
}

TEST_F(EntrollmCheckpoint, EveryFlippedBitIsFound) {
  ASSERT_TRUE(compress({{"w", {6, 5}, ecq_test::gaussian(6, 5)}, {"v", {4, 4}, ecq_test::gaussian(4, 4, 2)}}));
  const std::string good = ecq_test::read_file(packed);
  ASSERT_NE(good.find("zero"), std::string::npos);
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(static_cast<unsigned char>(bad[byte]) ^ (1U << byte % 8));
    ecq_test::write_file(folder / "damaged", bad);
    ASSERT_FALSE(ecq::verify_checkpoint(cpu{}, folder / "damaged")) << byte;
    ASSERT_FALSE(ecq::decompress_checkpoint(cpu{}, folder / "damaged", folder / "out")) << byte;
  }
}

TEST_F(EntrollmCheckpoint, AZeroPointHasToBePlannedAndFinite) {
  ASSERT_TRUE(compress({{"w", {6, 5}, ecq_test::gaussian(6, 5)}}));
  const auto container = ecq::container_reader::open(packed);
  ASSERT_TRUE(container);
  const auto block = container->load(0);
  ASSERT_TRUE(block);
  const auto written_with = [&](bool planned, float zero) {
    ecq::container_plan plan;
    plan.blocks = {{"w", {{"w", {6, 5}, false, planned}}}};
    auto writer = *ecq::container_writer::create(restored, plan);
    auto changed = *block;
    changed.matrices[0].zero = zero;
    return writer.write_block("w", changed).has_value();
  };
  EXPECT_TRUE(written_with(true, -0.25F));
  EXPECT_TRUE(written_with(false, 0));
  EXPECT_FALSE(written_with(false, -0.25F));
  EXPECT_FALSE(written_with(true, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(written_with(true, std::numeric_limits<float>::infinity()));
}

}  // namespace
