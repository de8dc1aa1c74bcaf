// Whole checkpoints through compress, verify, inspect and decompress.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::entquant;
using ecq::errc;
using ecq_test::bytes_of;
using ecq_test::temporary_folder;
using ecq_test::tensor;
using ecq_test::write_model;

/// Returns a model of two layers, an embedding and norms, with types of all widths.
std::vector<tensor> small_model() {
  std::vector<tensor> model;
  model.push_back({"model.embed_tokens.weight", "BF16", {50, 64}, bytes_of<ecq::bf16>(ecq_test::gaussian(50, 64, 9))});
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("model.layers.") + layer;
    const std::uint64_t seed = 10 + static_cast<std::uint64_t>(layer[0]);
    model.push_back(
        {prefix + ".q_proj.weight", "BF16", {64, 64}, bytes_of<ecq::bf16>(ecq_test::gaussian(64, 64, seed))});
    model.push_back(
        {prefix + ".up_proj.weight", "F32", {96, 64}, bytes_of<float>(ecq_test::row_varying(96, 64, seed))});
    model.push_back({prefix + ".conv.weight", "F16", {8, 5, 3}, bytes_of<ecq::fp16>(ecq_test::gaussian(8, 15, seed))});
    model.push_back(
        {prefix + ".fp8.weight", "F8_E4M3", {16, 32}, bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(16, 32, seed, 2.0F))});
    model.push_back({prefix + ".norm.weight", "BF16", {64}, bytes_of<ecq::bf16>(ecq_test::gaussian(1, 64, seed))});
  }
  model.push_back({"mask", "BOOL", {3}, std::string("\1\0\1", 3)});
  model.push_back({"position_ids", "I64", {1, 2}, std::string(16, '\3')});
  model.push_back({"empty", "F32", {0, 4}, ""});
  return model;
}

class WholeCheckpoint : public testing::Test {
 protected:
  void SetUp() override { write_model(original, model); }

  ecq::result<ecq::compress_report> compress(const ecq::compress_options& options, cpu backend = {}) {
    return ecq::compress_checkpoint(backend, original, packed, options);
  }

  /// Writes the model as two shards and an index, and returns the path of the index.
  std::filesystem::path write_shards() const {
    const std::vector<tensor> first(model.begin(), model.begin() + 4);
    const std::vector<tensor> second(model.begin() + 4, model.end());
    write_model(folder / "model-1.safetensors", first);
    write_model(folder / "model-2.safetensors", second);
    std::string index = R"({"metadata":{"total_size":1},"weight_map":{)";
    for (std::size_t i = 0; i < model.size(); ++i) {
      index += (i == 0 ? "" : ",") + ("\"" + model[i].name) + "\":\"model-" + (i < 4 ? "1" : "2") + ".safetensors\"";
    }
    auto index_path = folder / "model.safetensors.index.json";
    ecq_test::write_file(index_path, index + "}}");
    return index_path;
  }

  temporary_folder folder;
  std::filesystem::path original = folder / "model.safetensors";
  std::filesystem::path packed = folder / "packed.safetensors";
  std::filesystem::path restored = folder / "restored.safetensors";
  std::vector<tensor> model = small_model();
};

TEST_F(WholeCheckpoint, RoundTripsWithinTheDistortionItReports) {
  for (const dtype format : {dtype::fp8_e4m3, dtype::fp8_e5m2, dtype::int8}) {
    const auto report = compress({.method = {format, entquant{.target_bits = 5.0}}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->blocks, 2U);
    EXPECT_EQ(report->passed_through, 6U);
    EXPECT_EQ(report->weights, 2U * (64 * 64 + 96 * 64 + 120 + 512));
    EXPECT_EQ(report->file_bytes, std::filesystem::file_size(packed));
    EXPECT_EQ(report->input_bytes, std::filesystem::file_size(original));

    const auto verified = ecq::verify_checkpoint(cpu{}, packed, original);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_TRUE(verified->compared);
    EXPECT_EQ(verified->total.count, report->weights);
    EXPECT_LT(verified->total.relative_l1(), 0.3);

    const auto done = ecq::decompress_checkpoint(cpu{.threads = 2}, packed, restored);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(done->output_bytes, std::filesystem::file_size(restored));

    // Measure once more from the files, besides the library's own measurement.
    const auto before = ecq::safetensors_file::open(original);
    const auto after = ecq::safetensors_file::open(restored);
    ASSERT_TRUE(before && after);
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (const auto& one : verified->tensors) {
      const auto& old_entry = *before->find(one.name);
      const auto& new_entry = *after->find(one.name);
      EXPECT_EQ(old_entry.shape, new_entry.shape);
      if (!one.compressed) {
        EXPECT_EQ(old_entry.dtype, new_entry.dtype);
        EXPECT_EQ(ecq_test::as_text(before->bytes(old_entry)), ecq_test::as_text(after->bytes(new_entry)));
        continue;
      }
      const auto old_weights = *ecq::as_weights(old_entry, before->bytes(old_entry));
      const auto new_weights = *ecq::as_weights(new_entry, after->bytes(new_entry));
      double difference = 0, sum = 0;
      for (std::size_t row = 0; row < old_weights.rows(); ++row) {
        std::vector<float> old_row(old_weights.columns()), new_row(old_weights.columns());
        old_weights.load(row, 0, old_row);
        new_weights.load(row, 0, new_row);
        for (std::size_t i = 0; i < old_row.size(); ++i) {
          difference += std::fabs(static_cast<double>(new_row[i]) - static_cast<double>(old_row[i]));
          sum += std::fabs(static_cast<double>(old_row[i]));
        }
      }
      EXPECT_NEAR(one.error.relative_l1(), difference / sum, 1e-12) << one.name;
      EXPECT_LT(one.error.relative_l1(), 0.5) << one.name;
    }
  }
}

/// The small model with weights that stand out in two layers, and the weights that come back.
class ExactInCheckpoint : public WholeCheckpoint {
 protected:
  void SetUp() override {
    plant(1, 64 * 3 + 5, 7.5F);
    plant(6, 64 * 63 + 63, -9.0F);
    write_model(original, model);
  }

  void plant(std::size_t index, std::size_t position, float weight) {
    ASSERT_EQ(model[index].dtype, "BF16");
    const std::string bits = bytes_of<ecq::bf16>({weight});
    std::copy(bits.begin(), bits.end(), model[index].bytes.begin() + static_cast<std::ptrdiff_t>(2 * position));
  }

  /// Returns the weights of tensor `index` after decompression.
  std::vector<float> restored_weights(std::size_t index) {
    EXPECT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    const auto file = ecq::safetensors_file::open(restored);
    EXPECT_TRUE(file);
    const auto& entry = *file->find(model[index].name);
    const auto weights = *ecq::as_weights(entry, file->bytes(entry));
    std::vector<float> all(weights.size());
    for (std::size_t row = 0; row < weights.rows(); ++row) {
      weights.load(row, 0, std::span(all).subspan(row * weights.columns(), weights.columns()));
    }
    return all;
  }
};

TEST_F(ExactInCheckpoint, KeepsWhatIsNamedOrStandsOut) {
  const ecq::weight_places places = {{model[1].name, {{3, 5}, {0, 0}, {3, 5}}}, {model[0].name, {{0, 0}}}};
  for (const bool outliers : {false, true}) {
    const auto report = compress(
        {.method = entquant{.target_bits = 5.0}, .exact = {.places = places, .outlier_ratio = outliers ? 64.0 : 0.0}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_NEAR(report->bits_per_weight, 5.0, 0.02);
    EXPECT_EQ(report->exact, outliers ? 3U : 2U);
    EXPECT_EQ(restored_weights(1)[64 * 3 + 5], 7.5F);
    EXPECT_EQ(restored_weights(6)[64 * 63 + 63] == -9.0F, outliers);
    const auto inspected = ecq::inspect_checkpoint(cpu{}, packed);
    ASSERT_TRUE(inspected);
    std::uint64_t exact = 0;
    for (const auto& tensor : inspected->tensors) exact += tensor.exact;
    EXPECT_EQ(exact, report->exact);
    EXPECT_DOUBLE_EQ(inspected->bits_per_weight, report->bits_per_weight);
    ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, original));
  }
}

TEST_F(ExactInCheckpoint, WrongPlacesAreAnError) {
  const auto error_of = [&](const ecq::exact_choice& exact) {
    const auto report = compress({.method = entquant{.target_bits = 5.0}, .exact = exact});
    EXPECT_FALSE(report);
    return report ? ecq::error(errc::ok, "") : report.error();
  };
  EXPECT_EQ(error_of({.places = {{"nobody", {{0, 0}}}}}).code(), errc::not_found);
  EXPECT_EQ(error_of({.places = {{model[1].name, {{64, 0}}}}}).code(), errc::invalid_argument);
  const auto beyond = error_of({.places = {{model[1].name, {{0, 64}}}}});
  EXPECT_EQ(beyond.code(), errc::invalid_argument);
  EXPECT_NE(beyond.message().find(model[1].name), std::string::npos);
  EXPECT_EQ(error_of({.outlier_ratio = 0.5}).code(), errc::invalid_argument);
  // Without loss, all weights are exact.
  EXPECT_TRUE(compress({.method = ecq::lossless_weights{}, .exact = {.outlier_ratio = 64}}));
}

/// Returns sensitivities of the compressed tensors of the small model: `of_first` for the first layer, 1 for the
/// second.
ecq::sensitivity_map sensitivities_of(const std::vector<tensor>& model, double of_first) {
  ecq::sensitivity_map made;
  for (const tensor& each : model) {
    const bool layer = each.name.starts_with("model.layers.") && each.name.find("norm") == std::string::npos;
    if (layer) made[each.name] = each.name.starts_with("model.layers.0") ? of_first : 1.0;
  }
  return made;
}

TEST_F(WholeCheckpoint, DividesBitsBySensitivities) {
  const ecq::any_method method = entquant{.target_bits = 4.0};
  const auto alike = compress({.method = method});
  ASSERT_TRUE(alike);
  const std::string bytes = ecq_test::read_file(packed);
  ASSERT_TRUE(compress({.method = method, .sensitivities = sensitivities_of(model, 1)}));
  EXPECT_EQ(ecq_test::read_file(packed), bytes);
  // 16 times the sensitivity means an eighth of the others' lambda, about 1.5 bits more.
  const auto divided = compress({.method = method, .sensitivities = sensitivities_of(model, 16)});
  ASSERT_TRUE(divided) << divided.error().to_string();
  EXPECT_NEAR(divided->bits_per_weight, 4.0, 0.02);
  double entropy[2] = {};
  for (const auto& one : divided->tensors) {
    if (one.name.ends_with("q_proj.weight")) entropy[one.name.starts_with("model.layers.1")] = one.entropy;
  }
  EXPECT_NEAR(entropy[0] - entropy[1], 1.5, 0.25);
  // The lambda that was found gives the same file when it is given as an option, for parts or in other processes.
  const std::string of_bits = ecq_test::read_file(packed);
  const auto lambda =
      ecq::find_lambda_of(cpu{}, original, {.method = method, .sensitivities = sensitivities_of(model, 16)});
  ASSERT_TRUE(lambda) << lambda.error().to_string();
  const auto again =
      compress({.method = entquant{.lambda = divided->lambda}, .sensitivities = sensitivities_of(model, 16)});
  ASSERT_TRUE(again);
  EXPECT_NEAR(std::log2(*lambda / divided->lambda), 0, 0.5);  // before the correction of the rate for so small a model
  EXPECT_EQ(again->compressed_bytes, divided->compressed_bytes);
  // If each tensor meets the target by itself, there is nothing to divide.
  const ecq::any_method by_itself = entquant{.target_bits = 4.0, .each_matrix = true};
  const auto alone = compress({.method = by_itself});
  const auto alone_divided = compress({.method = by_itself, .sensitivities = sensitivities_of(model, 16)});
  ASSERT_TRUE(alone && alone_divided);
  for (std::size_t i = 0; i < alone->tensors.size(); ++i) {
    EXPECT_NEAR(alone_divided->tensors[i].entropy, alone->tensors[i].entropy, 0.05) << alone->tensors[i].name;
  }
  // Only the ratios of sensitivities matter.
  auto scaled = sensitivities_of(model, 16);
  for (auto& each : scaled) each.second.values[0] *= 1e-5;
  ASSERT_TRUE(compress({.method = method, .sensitivities = scaled}));
  EXPECT_EQ(ecq_test::read_file(packed), of_bits);
}

TEST_F(WholeCheckpoint, WrongSensitivitiesAreAnError) {
  const auto error_of = [&](const ecq::sensitivity_map& sensitivities, const ecq::any_method& method) {
    const auto report = compress({.method = method, .sensitivities = sensitivities});
    return report ? ecq::error(errc::ok, "") : report.error();
  };
  const ecq::any_method method = entquant{.target_bits = 4.0};
  auto sensitivities = sensitivities_of(model, 2);
  sensitivities["nobody"] = 1;
  EXPECT_EQ(error_of(sensitivities, method).code(), errc::not_found);
  sensitivities = sensitivities_of(model, 2);
  sensitivities.erase("model.layers.1.conv.weight");
  const auto missing = error_of(sensitivities, method);
  EXPECT_EQ(missing.code(), errc::not_found);
  EXPECT_NE(missing.message().find("model.layers.1.conv.weight"), std::string::npos);
  for (const double bad :
       {0.0, -1.0, 1e13, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(error_of(sensitivities_of(model, bad), method).code(), errc::invalid_argument) << bad;
  }
  EXPECT_EQ(error_of(sensitivities_of(model, 2), ecq::lossless_weights{}).code(), errc::ok);
}

// Scale times code may round above the largest number of the original's type.
TEST(ExtremeWeights, StayFiniteInTheirOwnType) {
  const temporary_folder folder;
  const auto with = [](float extreme) {
    auto weights = ecq_test::gaussian(40, 64, 3);
    for (const std::size_t at : {5U, 700U, 1500U}) weights[at] = at == 700 ? -extreme : extreme;
    return weights;
  };
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<tensor> model = {{"half", "F16", {40, 64}, bytes_of<ecq::fp16>(with(65504))},
                                     {"brain", "BF16", {40, 64}, bytes_of<ecq::bf16>(with(ecq::bf16::largest))},
                                     {"single", "F32", {40, 64}, bytes_of<float>(with(most))}};
  const auto original = folder / "model", packed = folder / "packed", restored = folder / "restored";
  write_model(original, model);
  const auto weights_of = [&](const char* name) {
    const auto file = ecq::safetensors_file::open(restored);
    const auto view = ecq::as_weights(*file->find(name), file->bytes(*file->find(name)));
    std::vector<float> weights(40 * 64);
    for (std::size_t row = 0; row < 40; ++row) view->load(row, 0, std::span(weights).subspan(row * 64, 64));
    return weights;
  };
  for (const dtype format : {dtype::fp8_e4m3, dtype::fp8_e5m2, dtype::int8}) {
    ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, original, packed, {.method = {format, entquant{.lambda = 0.01}}}));
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, original);
    ASSERT_TRUE(verified) << verified.error().to_string();
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    for (const auto& one : verified->tensors) {
      const float largest = one.name == "half" ? 65504.0F : one.name == "brain" ? ecq::bf16::largest : most;
      const auto before = with(largest);
      const auto after = weights_of(one.name.c_str());
      double difference = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        ASSERT_TRUE(std::isfinite(after[i])) << one.name << ", " << to_string(format);
        const float weight = one.name == "half"    ? static_cast<float>(ecq::fp16(before[i]))
                             : one.name == "brain" ? static_cast<float>(ecq::bf16(before[i]))
                                                   : before[i];
        difference = (std::max)(difference, std::fabs(static_cast<double>(after[i]) - static_cast<double>(weight)));
      }
      EXPECT_EQ(one.error.largest_error, difference) << one.name << ": not of the weights that were written";
      EXPECT_GT(after[5], 0.9F * largest) << one.name;
      EXPECT_LT(after[700], -0.9F * largest) << one.name;
    }
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = dtype::fp16}));
    EXPECT_EQ(weights_of("single")[5], 65504.0F);
    EXPECT_EQ(weights_of("single")[700], -65504.0F);
  }
}

// Both tensors share a lambda. An outlier must not make zeros of its own tensor, nor cost the other one its bits.
TEST(ExtremeWeights, LeaveTheOthersTheirBits) {
  const temporary_folder folder;
  const auto original = folder / "model", packed = folder / "packed";
  for (const float outlier : {1e16F, 1e30F, 3e38F}) {
    auto weights = ecq_test::gaussian(128, 256, 3);
    weights[3 * 256 + 5] = outlier;
    write_model(original, {{"outlying", "F32", {128, 256}, bytes_of<float>(weights)},
                           {"usual", "F32", {128, 256}, bytes_of<float>(ecq_test::gaussian(128, 256, 4))}});
    for (const bool each : {false, true}) {
      for (const double bits : {2.0, 3.0, 6.0}) {
        const auto report = ecq::compress_checkpoint(cpu{}, original, packed,
                                                     {.method = entquant{.target_bits = bits, .each_matrix = each}});
        ASSERT_TRUE(report) << report.error().to_string();
        EXPECT_NEAR(report->bits_per_weight, bits, 0.02) << outlier;
        for (const auto& one : report->tensors) EXPECT_NEAR(one.bits_per_weight, bits, 1.0) << one.name;
      }
    }
  }
}

TEST(ExtremeWeights, AreNamedWhereATargetCannotBeMet) {
  const temporary_folder folder;
  const auto huge = ecq_test::gaussian(128, 256, 3, 1e37F);
  write_model(folder / "model", {{"huge", "F32", {128, 256}, bytes_of<float>(huge)},
                                 {"usual", "F32", {128, 256}, bytes_of<float>(ecq_test::gaussian(128, 256, 4))}});
  const auto report =
      ecq::compress_checkpoint(cpu{}, folder / "model", folder / "packed", {.method = entquant{.target_bits = 1.5}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), errc::unreachable_target);
  EXPECT_NE(report.error().message().find("; weights of tensor 'huge' reach 2^12"), std::string::npos)
      << report.error().message();
  EXPECT_FALSE(std::filesystem::exists(folder / "packed"));
}

// Lossless weights converted to another type: finite ones stay finite, the others stay infinite or NaN.
TEST(ExtremeWeights, OfLosslessTensorsStayFiniteInOtherTypes) {
  const temporary_folder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  auto weights = ecq_test::gaussian(64, 16, 3);
  weights[0] = 1e30F;
  weights[1] = -1e30F;
  weights[2] = infinity;
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  write_model(folder / "model", {{"single", "F32", {64, 16}, bytes_of<float>(weights)}});
  ASSERT_TRUE(
      ecq::compress_checkpoint(cpu{}, folder / "model", folder / "packed", {.method = ecq::lossless_weights{}}));
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, folder / "packed", folder / "model"));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, folder / "packed", folder / "half", {.type = dtype::fp16}));
  const auto file = ecq::safetensors_file::open(folder / "half");
  ASSERT_TRUE(file);
  std::vector<float> found(16);
  ecq::as_weights(file->tensors()[0], file->bytes(file->tensors()[0]))->load(0, 0, found);
  EXPECT_EQ(found[0], 65504.0F);
  EXPECT_EQ(found[1], -65504.0F);
  EXPECT_EQ(found[2], infinity);
  EXPECT_TRUE(std::isnan(found[3]));
}

TEST(ExtremeWeights, OfTheOriginalThatAreNoNumbersAreNamedByVerify) {
  const temporary_folder folder;
  auto weights = ecq_test::gaussian(40, 64, 3);
  const auto write = [&](const char* name) {
    write_model(folder / name, {{"kept", "F32", {40, 64}, bytes_of<float>(weights)},
                                {"other", "F32", {40, 64}, bytes_of<float>(ecq_test::gaussian(40, 64, 4))}});
  };
  write("model");
  ASSERT_TRUE(
      ecq::compress_checkpoint(cpu{}, folder / "model", folder / "packed", {.method = entquant{.lambda = 2.0}}));
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, folder / "packed", folder / "model"));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    weights[3 * 64 + 9] = bad;
    write("bad");
    const auto verified = ecq::verify_checkpoint(cpu{}, folder / "packed", folder / "bad");
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().to_string(), std::string("non-finite weight: block '") +
                                                ecq::inspect_checkpoint(cpu{}, folder / "packed")->tensors[0].block +
                                                "': tensor 'kept' of the original: weight at row 3, column 9 is " +
                                                (std::isnan(bad) ? "NaN" : "infinite"));
  }
  // A NaN that comes back bit for bit is no error.
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, folder / "bad", folder / "packed",
                                       {.method = entquant{.lambda = 2.0}, .keep_non_finite = true}));
  const auto verified = ecq::verify_checkpoint(cpu{}, folder / "packed", folder / "bad");
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_EQ(verified->total.count, 40U * 64U);
}

TEST_F(WholeCheckpoint, DecodesToTheOriginalTypes) {
  ASSERT_TRUE(compress({.method = entquant{.lambda = 2.0}}));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  const auto file = ecq::safetensors_file::open(restored);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("model.layers.0.q_proj.weight")->dtype, "BF16");
  EXPECT_EQ(file->find("model.layers.0.up_proj.weight")->dtype, "F32");
  EXPECT_EQ(file->find("model.layers.0.conv.weight")->dtype, "F16");
  EXPECT_EQ(file->find("model.layers.0.fp8.weight")->dtype, "BF16");
  ASSERT_EQ(file->metadata().size(), 1U);
  EXPECT_EQ(file->metadata()[0].first, "format");
  for (const auto& entry : file->tensors()) {
    const unsigned width = ecq::find_safetensors_dtype(entry.dtype)->bits / 8;
    EXPECT_EQ(entry.begin % width, 0U) << entry.name;
  }
}

TEST_F(WholeCheckpoint, BytesDoNotDependOnThreads) {
  ASSERT_TRUE(compress({.method = entquant{.target_bits = 5.0}}, cpu{.threads = 1}));
  const std::string one = ecq_test::read_file(packed);
  ASSERT_TRUE(compress({.method = entquant{.target_bits = 5.0}}, cpu{.threads = 4}));
  EXPECT_EQ(one, ecq_test::read_file(packed));
}

TEST_F(WholeCheckpoint, ShardsCompressToTheSameWeights) {
  ASSERT_TRUE(compress({.method = entquant{.lambda = 2.0}}));
  const auto whole = ecq::inspect_checkpoint(cpu{}, packed);
  const auto index_path = write_shards();
  const auto report = ecq::compress_checkpoint(cpu{}, index_path, packed, {.method = entquant{.lambda = 2.0}});
  ASSERT_TRUE(report) << report.error().to_string();
  const auto sharded = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(whole && sharded);
  EXPECT_EQ(whole->bits_per_weight, sharded->bits_per_weight);
  EXPECT_EQ(whole->entropy, sharded->entropy);
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, packed, original));
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, packed, index_path));
}

TEST_F(WholeCheckpoint, OutputIsNeverAFileOfTheInput) {
  namespace fs = std::filesystem;
  const auto index_path = write_shards();
  ASSERT_TRUE(compress({.method = entquant{.lambda = 2.0}}));
  fs::create_symlink(index_path, folder / "link");
  fs::create_hard_link(folder / "model-2.safetensors", folder / "hard");
  fs::create_hard_link(packed, folder / "packed too");
  const auto contents = [&] {
    std::map<fs::path, std::string> all;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      all[entry.path()] = ecq_test::read_file(entry.path());
    }
    return all;
  };
  const auto before = contents();
  for (const char* output : {"model.safetensors.index.json", "model-1.safetensors", "link", "hard"}) {
    const auto refused =
        ecq::compress_checkpoint(cpu{}, index_path, folder / output, {.method = entquant{.lambda = 2.0}});
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_NE(refused.error().message().find((folder / output).string()), std::string::npos)
        << refused.error().message();
  }
  for (const fs::path& output : {packed, folder / "packed too"}) {
    const auto refused = ecq::decompress_checkpoint(cpu{}, packed, output);
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
  EXPECT_TRUE(contents() == before);
}

TEST_F(WholeCheckpoint, InspectAgreesWithTheReportOfCompression) {
  const auto report = compress({.method = entquant{.target_bits = 5.0}});
  const auto seen = ecq::inspect_checkpoint(cpu{.threads = 2}, packed);
  ASSERT_TRUE(report && seen);
  EXPECT_TRUE(seen->container);
  EXPECT_EQ(seen->bits_per_weight, report->bits_per_weight);
  EXPECT_EQ(seen->entropy, report->entropy);
  EXPECT_EQ(seen->tensors.size(), model.size());
  double bits = 0;
  for (const auto& one : seen->tensors) {
    if (!one.block.empty()) bits += one.bits_per_weight * static_cast<double>(one.weights);
  }
  EXPECT_NEAR(bits / static_cast<double>(seen->weights), seen->bits_per_weight, 1e-9);

  const auto plain = ecq::inspect_checkpoint(cpu{}, original);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->container);
  EXPECT_EQ(plain->tensors.size(), model.size());
  EXPECT_EQ(plain->weights, 0U);
}

TEST_F(WholeCheckpoint, EveryTensorMeetsTheTargetIfAsked) {
  ASSERT_TRUE(compress({.method = entquant{.target_bits = 5.0, .each_matrix = true}}));
  const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(seen);
  for (const ecq::tensor_report& tensor : seen->tensors) {
    if (tensor.block.empty()) continue;
    // Fewer weights have fewer rates to choose from.
    EXPECT_NEAR(tensor.bits_per_weight, 5.0, 0.1 + 300.0 / static_cast<double>(tensor.weights)) << tensor.name;
  }
}

TEST_F(WholeCheckpoint, NonFiniteWeightsAreNamedOrKept) {
  auto weights = ecq_test::gaussian(64, 64);
  weights[7 * 64 + 9] = std::numeric_limits<float>::infinity();
  model[1].bytes = bytes_of<ecq::bf16>(weights);
  write_model(original, model);
  for (const ecq::compress_options& options : {ecq::compress_options{.method = entquant{.target_bits = 5.0}},
                                               ecq::compress_options{.method = entquant{.lambda = 1.0}}}) {
    const auto refused = compress(options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::non_finite);
    EXPECT_NE(refused.error().message().find("model.layers.0.q_proj.weight"), std::string::npos)
        << refused.error().message();
    EXPECT_NE(refused.error().message().find("row 7, column 9"), std::string::npos) << refused.error().message();
    EXPECT_EQ(folder.count(), 1U);
  }
  const auto kept = compress({.method = entquant{.lambda = 1.0}, .keep_non_finite = true});
  ASSERT_TRUE(kept) << kept.error().to_string();
  EXPECT_EQ(kept->passed_through, 7U);
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, packed, original));
}

TEST_F(WholeCheckpoint, RefusesBadOptionsAndLeavesNothingBehind) {
  const auto code = [&](const ecq::compress_options& options) {
    const auto report = compress(options);
    return report ? errc::ok : report.error().code();
  };
  EXPECT_EQ(code({}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.target_bits = 3.0, .lambda = 1.0}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = -1.0}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = std::nan("")}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.target_bits = std::nan("")}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = {dtype::bf16, entquant{.lambda = 1.0}}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = {dtype::uint4, entquant{.lambda = 1.0}}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = 1.0}, .chunk_bits = 40}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = 1.0, .each_matrix = true}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = 1.0}, .selection = {.exclude = {"*"}}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.lambda = 1.0}, .selection = {.block_pattern = "["}}), errc::invalid_argument);
  EXPECT_EQ(code({.method = entquant{.target_bits = 0.2}}), errc::unreachable_target);
  EXPECT_EQ(folder.count(), 1U);
  ASSERT_TRUE(compress({.method = entquant{.lambda = 1.0}}));
  EXPECT_EQ(ecq::compress_checkpoint(cpu{}, packed, restored, {.method = entquant{.lambda = 1.0}}).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = dtype::int8}).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(ecq::decompress_checkpoint(cpu{}, original, restored).error().code(), errc::not_found);
  EXPECT_EQ(folder.count(), 2U);
}

TEST_F(WholeCheckpoint, StopsWhenProgressSaysSo) {
  for (int steps = 0; steps < 4; ++steps) {
    int calls = 0;
    const auto stopped = ecq::compress_checkpoint(cpu{}, original, packed, {.method = entquant{.target_bits = 5.0}},
                                                  [&](const ecq::progress&) { return calls++ < steps; });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(folder.count(), 1U);
  }
  std::uint64_t last = 0;
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, original, packed, {.method = entquant{.lambda = 1.0}},
                                       [&](const ecq::progress& step) {
                                         EXPECT_GE(step.done, last);
                                         EXPECT_LE(step.done, step.total);
                                         last = step.done;
                                         return true;
                                       }));
  for (int steps = 0; steps < 3; ++steps) {
    int calls = 0;
    EXPECT_FALSE(
        ecq::decompress_checkpoint(cpu{}, packed, restored, {}, [&](const ecq::progress&) { return calls++ < steps; }));
    EXPECT_FALSE(
        ecq::verify_checkpoint(cpu{}, packed, original, [&](const ecq::progress&) { return calls++ < 2 * steps; }));
  }
  EXPECT_EQ(folder.count(), 2U);
}

TEST_F(WholeCheckpoint, VerifyFindsWhatDoesNotBelongToTheOriginal) {
  ASSERT_TRUE(compress({.method = entquant{.lambda = 1.0}}));
  auto other = model;
  other.back().name = "renamed";
  write_model(restored, other);
  EXPECT_EQ(ecq::verify_checkpoint(cpu{}, packed, restored).error().code(), errc::not_found);
  other = model;
  other[0].bytes[11] = static_cast<char>(other[0].bytes[11] ^ 1);
  write_model(restored, other);
  const auto changed = ecq::verify_checkpoint(cpu{}, packed, restored);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), errc::checksum_mismatch);
  EXPECT_NE(changed.error().message().find("embed_tokens"), std::string::npos);
  other = model;
  other[1].shape = {32, 128};
  write_model(restored, other);
  EXPECT_EQ(ecq::verify_checkpoint(cpu{}, packed, restored).error().code(), errc::checksum_mismatch);
  other.pop_back();
  write_model(restored, other);
  EXPECT_EQ(ecq::verify_checkpoint(cpu{}, packed, restored).error().code(), errc::not_found);
}

TEST(DamagedContainer, EveryFlippedBitAndEveryTruncationIsFound) {
  const temporary_folder folder;
  const std::vector<tensor> model = {{"w", "BF16", {6, 5}, bytes_of<ecq::bf16>(ecq_test::gaussian(6, 5))},
                                     {"bias", "F32", {2}, std::string(8, '\1')}};
  write_model(folder / "model.safetensors", model, {});
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, folder / "model.safetensors", folder / "packed",
                                       {.method = entquant{.lambda = 2.0}}));
  const std::string good = ecq_test::read_file(folder / "packed");
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, folder / "packed"));
  const auto damaged = folder / "damaged";
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    for (std::size_t bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[byte] = static_cast<char>(static_cast<unsigned char>(bad[byte]) ^ (1U << bit));
      ecq_test::write_file(damaged, bad);
      ASSERT_FALSE(ecq::verify_checkpoint(cpu{}, damaged)) << "byte " << byte << " bit " << bit;
      if (bit != byte % 8) continue;  // decompression makes the same checks, but writes a file each time
      ASSERT_FALSE(ecq::decompress_checkpoint(cpu{}, damaged, folder / "out")) << "byte " << byte << " bit " << bit;
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    ecq_test::write_file(damaged, good.substr(0, size));
    ASSERT_FALSE(ecq::verify_checkpoint(cpu{}, damaged)) << size;
    ASSERT_FALSE(ecq::inspect_checkpoint(cpu{}, damaged)) << size;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
