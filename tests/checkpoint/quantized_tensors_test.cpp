// Checkpoints that are already quantised: scales are applied or kept, but never compressed like weights.

#include "ecq/checkpoint/quantized_tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/int8.hpp"
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
using ecq_test::tensor;
using ecq_test::write_model;

using shape = std::vector<std::uint64_t>;

std::string some_bytes(std::size_t size, unsigned largest = 255) {
  std::mt19937 random(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % (largest + 1));
  return bytes;
}

TEST(QuantizedTensors, KnowTheNamesOfWhatBelongsToQuantisedWeights) {
  for (const std::string_view name :
       {"model.layers.0.mlp.up_proj.weight_scale_inv", "layers.3.q_proj.weight_scale", "layers.3.q_proj.weight_packed",
        "layers.3.q_proj.weight_global_scale", "layers.3.q_proj.weight_zero_point", "layers.3.q_proj.input_scale",
        "h.0.attn.qweight", "h.0.attn.qzeros", "h.0.attn.scales", "h.0.attn.g_idx", "h.0.attn.weight.absmax",
        "h.0.attn.weight.nested_quant_map", "h.0.attn.weight.quant_state.bitsandbytes__nf4", "h.0.attn.SCB",
        "layers.1.experts.gate_up_proj_blocks", "layers.1.experts.gate_up_proj_scales", "l.scale_weight"}) {
    EXPECT_TRUE(ecq::belongs_to_quantized(name)) << name;
  }
  for (const std::string_view name : {"layers.0.q_proj.weight", "transformer_blocks.0.attn.to_q.weight",
                                      "blocks.0.mlp.fc1.weight", "h.0.attn.c_attn.bias", "scale_head.weight"}) {
    EXPECT_FALSE(ecq::belongs_to_quantized(name)) << name;
  }
}

struct spread_case {
  shape weights, scale, block;
  std::size_t rows, columns, across;  ///< 0 rows: the shapes do not match
};

TEST(QuantizedTensors, SpreadScalesOverRowsAndBlocks) {
  const std::vector<spread_case> cases{
      {{64, 96}, {}, {}, 64, 96, 1},  // one for all
      {{64, 96}, {1}, {}, 64, 96, 1},
      {{64, 96}, {64}, {}, 1, 96, 1},  // one per row
      {{64, 96}, {64, 1}, {}, 1, 96, 1},
      {{576, 7168}, {5, 56}, {}, 128, 128, 56},  // blocks, the last of them smaller
      {{300, 256}, {3, 2}, {100, 128}, 100, 128, 2},
      {{300, 256}, {3, 2}, {}, 128, 128, 2},
      {{192, 192}, {2, 2}, {}, 0, 0, 0},  // squares of 96 or of 128
      {{192, 192}, {2, 2}, {128, 128}, 128, 128, 2},
      {{192, 192}, {2, 2}, {96, 96}, 96, 96, 2},
      {{192, 192}, {2, 2}, {64, 64}, 0, 0, 0},  // blocks of another size
      {{192, 192}, {3, 2}, {64, 64}, 0, 0, 0},
      {{192, 192}, {192, 1}, {64, 64}, 1, 192, 1},
      {{192, 192}, {2, 1}, {64, 64}, 0, 0, 0},
      {{192, 192}, {192, 192}, {64, 64}, 1, 1, 192},
      {{300, 512}, {3, 2}, {}, 0, 0, 0},  // blocks of 100 rows or of 128
      {{5632, 64}, {2}, {}, 0, 0, 0},     // two matrices in one, or blocks of 4096 rows
      {{6144, 64}, {3}, {}, 2048, 64, 1},
      {{96, 90}, {96, 3}, {}, 0, 0, 0},  // groups of 30 or of 32 in each row
      {{96, 90}, {96, 6}, {}, 0, 0, 0},
      {{96, 100}, {96, 5}, {}, 1, 20, 5},
      {{96, 90}, {96, 23}, {}, 1, 4, 23},
      {{60, 90}, {60, 9}, {}, 1, 10, 9},
      {{8, 32, 48}, {8}, {}, 1, 1536, 1},  // experts
      {{8, 32, 48}, {8, 1, 1}, {}, 1, 1536, 1},
      {{8, 32, 48}, {8, 32, 1}, {}, 1, 48, 32},
      {{8, 32, 48}, {8, 32, 3}, {}, 1, 16, 96},
      {{8, 256, 256}, {8, 2, 2}, {}, 128, 128, 2},  // stacks of experts, whose rows are rows of the matrix
      {{8, 256, 256}, {8}, {}, 256, 256, 1},
      {{8, 256, 256}, {8, 256}, {}, 1, 256, 1},
      {{8, 256, 256}, {8, 256, 1}, {}, 1, 256, 1},
      {{8, 256, 512}, {8, 1, 512}, {}, 256, 1, 512},  // one per column
      {{2, 4, 256, 512}, {2, 4, 2, 4}, {128, 128}, 128, 128, 4},
      {{8, 256, 256}, {1}, {}, 2048, 256, 1},
      {{8, 300, 256}, {8, 3, 2}, {128, 128}, 0, 0, 0},  // experts that would begin within a row of blocks
      {{8, 256, 256}, {4, 2, 2}, {}, 0, 0, 0},
      {{8, 256, 256}, {2, 2}, {}, 0, 0, 0},
      {{64, 96}, {96}, {}, 0, 0, 0},  // one per column
      {{64, 96}, {64, 97}, {}, 0, 0, 0},
      {{64, 96}, {0}, {}, 0, 0, 0},
      {{64, 96}, {7, 1}, {}, 0, 0, 0},
      {{0, 96}, {1}, {}, 0, 0, 0},
      {{}, {1}, {}, 0, 0, 0},
  };
  for (const spread_case& one : cases) {
    const auto spread = ecq::spread_scales(one.weights, one.scale, one.block);
    const std::string label = ecq::detail::shape_text(one.weights) + " by " + ecq::detail::shape_text(one.scale);
    ASSERT_EQ(spread.has_value(), one.rows != 0) << label;
    if (!spread) continue;
    EXPECT_EQ(spread->rows_per_scale, one.rows) << label;
    EXPECT_EQ(spread->columns_per_scale, one.columns) << label;
    EXPECT_EQ(spread->across, one.across) << label;
  }
}

/// A model with quantised weights, and the same weights unpacked.
struct quantized_pair {
  std::vector<tensor> quantized, plain;

  /// Adds weights of `Format`, `rows` x `columns`, and their scales: one for each `block_rows` x `block_columns`.
  template <class Format, class Scale>
  void add(const std::string& name, std::string_view scale_suffix, std::size_t rows, std::size_t columns,
           std::size_t block_rows, std::size_t block_columns) {
    const auto values = ecq_test::gaussian(rows, columns, rows + columns, 40.0F);
    const std::size_t down = (rows - 1) / block_rows + 1, across = (columns - 1) / block_columns + 1;
    std::vector<float> scales(down * across), weights;
    for (std::size_t i = 0; i < scales.size(); ++i) {
      scales[i] = static_cast<float>(Scale(0.0003F * static_cast<float>(1 + i % 7)));
    }
    std::string codes;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const auto code = Format::encode(values[row * columns + column]);
        codes.push_back(static_cast<char>(code));
        weights.push_back(Format::decode(code) * scales[row / block_rows * across + column / block_columns]);
      }
    }
    const std::string_view type = ecq::safetensors_name(ecq::dtype_of<Format>);
    quantized.push_back({name, type, {rows, columns}, codes});
    const shape of_scales = across == 1 ? shape{down} : shape{down, across};
    const std::string_view scale_type = sizeof(Scale) == 4 ? "F32" : "BF16";
    quantized.push_back({name + std::string(scale_suffix), scale_type, of_scales, bytes_of<Scale>(scales)});
    plain.push_back({name, "F32", {rows, columns}, bytes_of<float>(weights)});
  }
};

class QuantizedCheckpoint : public testing::Test {
 protected:
  ecq::result<ecq::compress_report> compress(const ecq::compress_options& how = {.method = entquant{.lambda = 10.0}}) {
    return ecq::compress_checkpoint(cpu{.threads = 2}, model, packed, how);
  }

  /// Returns the names, types and bytes of all tensors of `file` except `without`.
  static std::string contents(const std::filesystem::path& file, std::string_view without = {}) {
    const auto read = ecq::checkpoint::open(file);
    if (!read) return read.error().to_string();
    std::vector<std::string> all;
    for (const auto& entry : read->tensors()) {
      if (entry.name == without) continue;
      all.push_back(entry.name + " " + std::string(entry.dtype) + " " +
                    std::string(ecq_test::as_text(read->bytes(entry))));
    }
    std::sort(all.begin(), all.end());
    std::string text;
    for (const std::string& one : all) text += one + "\n";
    return text;
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path model = folder / "model.safetensors";
  std::filesystem::path packed = folder / "packed";
  std::filesystem::path restored = folder / "restored";
};

// The law: quantised weights with their scales give the same result as the products of both.
TEST_F(QuantizedCheckpoint, ScalesAreAppliedBeforeAnythingElse) {
  quantized_pair pair;
  pair.add<ecq::fp8_e4m3, float>("layers.0.blocks.weight", "_scale_inv", 200, 320, 128, 128);
  pair.add<ecq::fp8_e4m3, ecq::bf16>("layers.0.rows.weight", "_scale", 96, 160, 1, 160);
  pair.add<ecq::fp8_e5m2, float>("layers.1.one.weight", "_scale", 64, 160, 64, 160);
  pair.add<ecq::int8, float>("layers.1.int8.weight", "_scale", 64, 128, 1, 128);
  pair.add<ecq::int8, ecq::bf16>("layers.1.groups.weight", "_scale", 64, 128, 1, 32);
  for (const bool to_rate : {false, true}) {
    const ecq::compress_options how{.method = to_rate ? entquant{.target_bits = 3.5} : entquant{.lambda = 10.0}};
    write_model(model, pair.quantized);
    const auto report = compress(how);
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->unpacked, 5U);
    EXPECT_EQ(report->passed_through, 0U);
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, model);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_EQ(verified->tensors.size(), 5U);
    EXPECT_LT(verified->total.relative_l1(), 0.2);
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    const std::string ours = contents(restored);
    EXPECT_EQ(ours.find("_scale"), std::string::npos);

    write_model(model, pair.plain);
    const auto expected = compress(how);
    ASSERT_TRUE(expected) << expected.error().to_string();
    EXPECT_EQ(expected->bits_per_weight, report->bits_per_weight);
    EXPECT_EQ(expected->lambda, report->lambda);
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = ecq::dtype::bf16}));
    EXPECT_TRUE(contents(restored) == ours);
  }
  // Tensors that stay quantised are counted, since config.json no longer mentions them.
  write_model(model, pair.quantized);
  const auto some = compress({.method = entquant{.lambda = 10.0}, .selection = {.exclude = {"layers.1.int8.*"}}});
  ASSERT_TRUE(some) << some.error().to_string();
  EXPECT_EQ(some->unpacked, 4U);
  EXPECT_EQ(some->left_quantized, 1U);
}

TEST_F(QuantizedCheckpoint, WhatBelongsToPackedWeightsStaysBitForBit) {
  const auto scales = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 8, 3, 100.0F));
  const auto floats = bytes_of<ecq::fp16>(ecq_test::gaussian(8, 64, 3, 0.01F));
  const std::vector<tensor> kept{
      {"layers.0.nvfp4.weight_packed", "U8", {64, 64}, some_bytes(4096)},
      {"layers.0.nvfp4.weight_scale", "F8_E4M3", {64, 8}, scales},
      {"layers.0.nvfp4.weight_global_scale", "F32", {1}, bytes_of<float>({448.0F})},
      {"layers.0.gptq.qweight", "I32", {16, 64}, some_bytes(4096)},
      {"layers.0.gptq.qzeros", "I32", {8, 8}, some_bytes(256)},
      {"layers.0.gptq.scales", "F16", {8, 64}, floats},
      {"layers.0.gptq.g_idx", "I32", {128}, some_bytes(512)},
      {"layers.0.mxfp4_blocks", "U8", {64, 4, 16}, some_bytes(4096)},
      {"layers.0.mxfp4_scales", "U8", {64, 4}, some_bytes(256)},
      {"layers.0.nf4.weight", "U8", {2048, 1}, some_bytes(2048)},
      {"layers.0.nf4.weight.absmax", "F32", {8, 8}, some_bytes(256, 60)},
      {"layers.0.zeros.weight", "I8", {64, 64}, some_bytes(4096)},
      {"layers.0.zeros.weight_scale", "F32", {64, 1}, bytes_of<float>(std::vector<float>(64, 0.1F))},
      {"layers.0.zeros.weight_zero_point", "I8", {64, 1}, some_bytes(64)},
  };
  std::vector<tensor> all = kept;
  const auto weights = ecq_test::gaussian(64, 256, 5, 0.02F);
  all.push_back({"layers.0.plain.weight", "BF16", {64, 256}, bytes_of<ecq::bf16>(weights)});
  write_model(model, all);
  const auto report = compress();
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->tensors.size(), 1U);
  EXPECT_EQ(report->passed_through, kept.size());
  EXPECT_EQ(report->of_quantized, kept.size() - 2);  // all but the two with codes called `weight`
  EXPECT_EQ(report->unpacked, 0U);
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  EXPECT_TRUE(contents(restored, "layers.0.plain.weight") == contents(model, "layers.0.plain.weight"));
  // Naming them does not select them either.
  ASSERT_TRUE(compress({.method = entquant{.lambda = 10.0}, .selection = {.include = {"*"}}}));
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, model));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  EXPECT_TRUE(contents(restored, "layers.0.plain.weight") == contents(model, "layers.0.plain.weight"));
}

TEST_F(QuantizedCheckpoint, ScalesThatCannotBeAppliedAreAnError) {
  const auto codes = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96));
  const tensor plain{"layers.0.b.weight", "BF16", {64, 96}, bytes_of<ecq::bf16>(ecq_test::gaussian(64, 96))};
  const tensor weight{"layers.0.a.weight", "F8_E4M3", {64, 96}, codes};
  const std::vector<tensor> wrong{
      {"layers.0.a.weight_scale", "F32", {96}, bytes_of<float>(std::vector<float>(96, 1.0F))},
      {"layers.0.a.weight_scale", "I32", {1}, std::string(4, '\1')},
      {"layers.0.a.weight_scale", "F32", {0}, ""},
  };
  for (const tensor& scale : wrong) {
    std::filesystem::remove(packed);
    write_model(model, {weight, scale, plain});
    const auto refused = compress();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::unsupported);
    EXPECT_NE(refused.error().message().find("layers.0.a.weight"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(packed));
    const auto without =
        compress({.method = entquant{.lambda = 10.0}, .selection = {.exclude = {"layers.0.a.weight"}}});
    ASSERT_TRUE(without) << without.error().to_string();
    EXPECT_EQ(without->passed_through, 2U);
  }
  const std::string half = bytes_of<float>(std::vector<float>(1, 0.5F));
  write_model(model, {weight,
                      {"layers.0.a.weight_scale", "F32", {1}, half},
                      {"layers.0.a.weight_scale_inv", "F32", {1}, half},
                      plain});
  const auto doubtful = compress();
  ASSERT_FALSE(doubtful);
  EXPECT_EQ(doubtful.error().code(), errc::unsupported);
  EXPECT_NE(doubtful.error().message().find("layers.0.a.weight_scale_inv"), std::string::npos);
  const tensor nan{"layers.0.a.weight_scale", "F32", {1}, std::string("\0\0\xc0\x7f", 4)};
  write_model(model, {weight, nan, plain});
  const auto not_a_number = compress();
  ASSERT_FALSE(not_a_number);
  EXPECT_EQ(not_a_number.error().code(), errc::non_finite);
  EXPECT_NE(not_a_number.error().message().find("layers.0.a.weight"), std::string::npos);
}

TEST_F(QuantizedCheckpoint, ZeroPointsOfAnyNameAreNotIgnored) {
  const tensor weight{"layers.0.a.weight", "I8", {64, 96}, some_bytes(64 * 96)};
  const tensor scale{"layers.0.a.weight_scale", "F32", {64, 1}, bytes_of<float>(std::vector<float>(64, 0.5F))};
  const tensor plain{"layers.0.b.weight", "BF16", {64, 96}, bytes_of<ecq::bf16>(ecq_test::gaussian(64, 96))};
  const auto unpacked_beside = [&](const std::string& name) {
    write_model(model, {weight, scale, {name, "F32", {64, 1}, bytes_of<float>(std::vector<float>(64, 3.0F))}, plain});
    const auto report = compress();
    EXPECT_TRUE(report) << name;
    return report && report->unpacked == 1;
  };
  for (const std::string name : {"weight_offset", "offset", "zp", "weight_zp", "weight_zero", "weight_zero_point",
                                 "weight_zero_points", "weight_zeros", "weight_shift", "zero", "weight.zero_point"}) {
    EXPECT_FALSE(unpacked_beside("layers.0.a." + name)) << name;
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    EXPECT_TRUE(contents(restored, plain.name) == contents(model, plain.name)) << name;
  }
  for (const std::string name : {"a.input_offset", "a.input_zero_point", "a.output_shift", "a.c.weight_offset",
                                 "ab.weight_offset", "a2.zero_point"}) {
    EXPECT_TRUE(unpacked_beside("layers.0." + name)) << name;
  }
  // Names of Quanto.
  write_model(model, {{"layers.0.a.weight._data", weight.dtype, weight.shape, weight.bytes},
                      {"layers.0.a.weight._scale", scale.dtype, scale.shape, scale.bytes},
                      {"layers.0.a.weight._shift", scale.dtype, scale.shape, scale.bytes},
                      plain});
  const auto shifted = compress();
  ASSERT_TRUE(shifted) << shifted.error().to_string();
  EXPECT_EQ(shifted->unpacked, 0U);
  // The name of a module says nothing.
  const std::string module = "layers.0.zero_shift.";
  write_model(model, {{module + "weight", weight.dtype, weight.shape, weight.bytes},
                      {module + "weight_scale", scale.dtype, scale.shape, scale.bytes},
                      {module + "bias", "F32", {64}, bytes_of<float>(std::vector<float>(64, 3.0F))}});
  const auto report = compress();
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->unpacked, 1U);
}

TEST_F(QuantizedCheckpoint, Fp8WithoutScalesIsPlainOnlyWhereNothingIsQuantised) {
  const auto codes = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96));
  const tensor bare{"layers.0.a.weight", "F8_E4M3", {64, 96}, codes};
  write_model(model, {bare});
  ASSERT_TRUE(compress());
  const auto plain = contents(packed);
  EXPECT_NE(plain.find("layers.0.a.weight.ecq_scale"), std::string::npos);

  ecq_test::write_file(folder / "config.json", R"({"quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(compress().error().code(), errc::unsupported);
  ecq_test::write_file(folder / "config.json", "no JSON");
  EXPECT_TRUE(compress());

  quantized_pair pair;
  pair.add<ecq::fp8_e4m3, float>("layers.0.b.weight", "_scale", 64, 160, 64, 160);
  pair.quantized.push_back(bare);
  write_model(model, pair.quantized);
  const auto refused = compress();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("layers.0.a.weight"), std::string::npos);
}

TEST_F(QuantizedCheckpoint, Fp8BesideWhatMayBeItsScalesIsAnError) {
  const auto codes = bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 96));
  const tensor bare{"layers.0.a.weight", "F8_E4M3", {64, 96}, codes};
  const auto refused = [&](const std::string& name) {
    write_model(model, {bare, {name, "F32", {1}, bytes_of<float>({0.01F})}});
    const auto report = compress();
    if (report) return false;
    EXPECT_NE(report.error().message().find(name), std::string::npos);
    return report.error().code() == errc::unsupported;
  };
  for (const std::string name : {"weight_scales", "scales", "scale_inv", "weight.scale", "weight._scale", "w_scale",
                                 "fp8_scale", "weight_scale_2", "wscale", "scale_w", "qscale", "weight_scale_1",
                                 "weights_scaling_factor", "scaling_factor", "weight_max", "weight_offset"}) {
    EXPECT_TRUE(refused("layers.0.a." + name)) << name;
  }
  EXPECT_FALSE(refused("layers.0.b.scale_of_something"));
  EXPECT_FALSE(refused("layers.0.a.bias"));
  write_model(model, {{"layers.0.upscale.weight", bare.dtype, bare.shape, bare.bytes},
                      {"layers.0.upscale.bias", "F32", {1}, bytes_of<float>({0.01F})}});
  EXPECT_TRUE(compress());
}

// Each name is read only once; otherwise a file of less than a megabyte would keep a reader busy for hours.
TEST_F(QuantizedCheckpoint, NamesBesideEachOtherAreReadOnce) {
  std::vector<tensor> tensors;
  for (int i = 0; i < 50'000; ++i) tensors.push_back({"scaled.w" + std::to_string(i), "F8_E4M3", {1, 1}, "w"});
  write_model(model, tensors);
  const auto read = ecq::checkpoint::open(model);
  ASSERT_TRUE(read);
  const auto plain = ecq::quantized_tensors::find(*read);
  EXPECT_TRUE(plain.weights_of(read->tensors()[7], 7, read->bytes(read->tensors()[7])));
  // All of them, the scale itself included, lie beside one of the others.
  tensors.push_back({"scaled.w_scale", "F8_E4M3", {1, 1}, "w"});
  write_model(model, tensors);
  const auto again = ecq::checkpoint::open(model);
  ASSERT_TRUE(again);
  const auto unknown = ecq::quantized_tensors::find(*again);
  EXPECT_FALSE(unknown.weights_of(again->tensors()[7], 7, again->bytes(again->tensors()[7])));
}

TEST_F(QuantizedCheckpoint, ConfigSaysHowLargeBlocksAre) {
  quantized_pair pair;
  pair.add<ecq::fp8_e4m3, float>("layers.0.a.weight", "_scale_inv", 300, 300, 100, 100);
  ecq_test::write_file(
      folder / "config.json",
      R"({"hidden": [1.5], "quantization_config": {"weight_block_size": [100, 100], "quant_method": "fp8"}})");
  write_model(model, pair.quantized);
  ASSERT_TRUE(compress());
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  const std::string ours = contents(restored);
  write_model(model, pair.plain);
  std::filesystem::remove(folder / "config.json");
  ASSERT_TRUE(compress());
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = ecq::dtype::bf16}));
  EXPECT_TRUE(contents(restored) == ours);
}

TEST_F(QuantizedCheckpoint, BlocksOfAnotherSizeThanConfigSaysAreAnError) {
  quantized_pair pair;
  pair.add<ecq::fp8_e4m3, float>("layers.0.a.weight", "_scale_inv", 256, 256, 128, 128);
  ecq_test::write_file(folder / "config.json", R"({"quantization_config": {"weight_block_size": [64, 64]}})");
  write_model(model, pair.quantized);
  const auto refused = compress();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ecq::errc::unsupported);
  EXPECT_NE(refused.error().message().find("config.json tells apart; config.json has [64, 64]"), std::string::npos)
      << refused.error().message();
}

TEST_F(QuantizedCheckpoint, NothingButPackedWeightsSaysWhatToDo) {
  write_model(model, {{"layers.0.a.qweight", "I32", {16, 64}, some_bytes(4096)},
                      {"layers.0.a.scales", "F16", {8, 64}, some_bytes(1024, 50)}});
  const auto refused = compress();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("2 belong to quantised weights"), std::string::npos)
      << refused.error().message();
}

/// Returns `bytes` bytes of codes with `bits` bits each: rounded normal numbers with a standard deviation of
/// `deviation`.
std::string packed_codes(std::size_t bytes, unsigned bits, float deviation) {
  const auto values = ecq_test::gaussian(1, bytes * 8 / bits, 11, deviation);
  std::string words(bytes, '\0');
  const unsigned middle = 1U << (bits - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float level = std::clamp(std::round(values[i]), -static_cast<float>(middle), static_cast<float>(middle) - 1);
    const auto code = static_cast<unsigned>(static_cast<int>(level) + static_cast<int>(middle));
    words[i * bits / 8] = static_cast<char>(static_cast<unsigned char>(words[i * bits / 8]) | (code << (i * bits % 8)));
  }
  return words;
}

// The block of the weights of layers.0 is called layers.0.bf16, too.
TEST_F(QuantizedCheckpoint, LosslessTakesTensorsThatAreCalledLikeBlocks) {
  const tensor weights{"layers.0.weight", "BF16", {64, 96}, bytes_of<ecq::bf16>(ecq_test::gaussian(64, 96))};
  const tensor bytes{"layers.0.bf16", "U8", {8192}, packed_codes(8192, 8, 2.0F)};
  for (const std::vector<tensor>& both : {std::vector{weights, bytes}, std::vector{bytes, weights}}) {
    write_model(model, both);
    const auto report = compress({.method = lossless_weights{}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->tensors.size(), 2U);
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    EXPECT_TRUE(contents(restored) == contents(model));
  }
}

// Bits per weight of each kind of tensor after lossless compression. The limits leave a few hundredths of the entropy
// for the cost of small streams besides their codes.
TEST_F(QuantizedCheckpoint, LosslessTakesEveryKind) {
  std::string exponents;
  for (const char byte : packed_codes(1U << 15, 8, 2.0F)) exponents.push_back(static_cast<char>(byte ^ 0x40));
  const std::vector<tensor> kinds{
      {"layers.0.gptq.qweight", "I32", {128, 256}, packed_codes(1U << 17, 4, 2.5F)},
      {"layers.0.int8.weight", "I8", {256, 512}, packed_codes(1U << 17, 8, 20.0F)},
      {"layers.0.nvfp4.weight_packed", "U8", {256, 512}, packed_codes(1U << 17, 4, 2.5F)},
      {"layers.0.mx.weight_scale", "F8_E8M0", {128, 256}, exponents},
      {"layers.0.f4.weight", "F4", {512, 512}, packed_codes(1U << 17, 4, 2.5F)},
      {"layers.0.fp8.weight", "F8_E4M3", {256, 512}, bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(256, 512, 2, 40.0F))},
      {"layers.0.fp8.weight_scale_inv", "F32", {2, 4}, some_bytes(32, 60)},
      {"layers.0.flags", "BOOL", {5000}, some_bytes(5000, 1)},
      {"layers.0.random", "U8", {8192}, some_bytes(8192)},
      {"layers.0.g_idx", "I64", {16}, some_bytes(128)},
      {"scalar", "I64", {}, some_bytes(8)},
  };
  const std::map<std::string, double> limits{{"layers.0.gptq.qweight", 8 * 3.5},
                                             {"layers.0.int8.weight", 6.6},
                                             {"layers.0.f4.weight", 3.5},
                                             {"layers.0.mx.weight_scale", 3.3},
                                             {"layers.0.random", 8.5}};
  write_model(model, kinds);
  for (const auto coder : {std::optional(ecq::coder_id::rans), std::optional<ecq::coder_id>()}) {
    const auto report = compress({.method = lossless_weights{.pairs = !coder}, .coder = coder});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->passed_through, 3U);  // tensors of a few bytes
    const auto verified = ecq::verify_checkpoint(cpu{}, packed, model);
    ASSERT_TRUE(verified) << verified.error().to_string();
    EXPECT_TRUE(verified->identical());
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    EXPECT_TRUE(contents(restored) == contents(model));
    // The option of a type does not concern tensors that are not weights.
    ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = ecq::dtype::fp32}));
    const auto read = ecq::checkpoint::open(restored);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->find("layers.0.gptq.qweight")->dtype, "I32");
    for (const auto& one : report->tensors) {
      const auto limit = limits.find(one.name);
      if (limit != limits.end()) {
        EXPECT_LT(one.bits_per_weight, limit->second) << one.name;
      }
      EXPECT_LT(one.entropy, one.bits_per_weight) << one.name;
    }
  }
}

// FP8 weights with few different mantissas are smaller as bytes. If the coder is given, exponents are coded
// nevertheless.
TEST_F(QuantizedCheckpoint, LosslessTakesFp8ByBytesWhereThatIsSmaller) {
  std::vector<float> few = ecq_test::gaussian(128, 256, 4, 1.0F);
  for (float& weight : few) weight = std::copysign(std::fabs(weight) < 0.5F ? 0.40625F : 1.25F, weight);
  write_model(model, {{"layers.0.few", "F8_E4M3", {128, 256}, bytes_of<ecq::fp8_e4m3>(few)},
                      {"layers.0.random", "F8_E5M2", {128, 256}, some_bytes(1U << 15)},
                      {"layers.0.small", "F8_E4M3", {8, 16}, some_bytes(128)}});
  const auto by_exponents = compress({.method = lossless_weights{}, .coder = ecq::coder_id::rans});
  ASSERT_TRUE(by_exponents) << by_exponents.error().to_string();
  const auto smallest = compress({.method = lossless_weights{}, .coder = std::nullopt});
  ASSERT_TRUE(smallest) << smallest.error().to_string();
  EXPECT_LT(smallest->file_bytes, by_exponents->file_bytes - 10000);
  std::map<std::string, std::string> formats;
  for (const auto& one : smallest->tensors) formats[one.name] = one.format;
  EXPECT_EQ(formats["layers.0.few"], "bytes");
  EXPECT_EQ(formats["layers.0.random"], "fp8_e5m2");
  for (const auto& one : by_exponents->tensors) EXPECT_EQ(one.format.substr(0, 3), "fp8") << one.name;
  EXPECT_TRUE(ecq::verify_checkpoint(cpu{}, packed, model)->same_file);
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  EXPECT_TRUE(contents(restored) == contents(model));
}

// Layers of the fallback are as AbsMax makes them, and the other layers meet the target.
TEST_F(QuantizedCheckpoint, FallbackKeepsLayersAtEightBits) {
  const auto weights = [](std::uint64_t seed) {
    return bytes_of<ecq::bf16>(ecq_test::gaussian(128, 256, seed, 0.02F));
  };
  const tensor fallen{"layers.0.down_proj.weight", "BF16", {128, 256}, weights(1)};
  write_model(model, {fallen,
                      {"layers.0.up_proj.weight", "BF16", {128, 256}, weights(2)},
                      {"layers.1.up_proj.weight", "BF16", {128, 256}, weights(3)}});
  const auto report = compress({.method = entquant{.target_bits = 2.5}, .fallback_names = {"*.down_proj.*"}});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->by_fallback, 1U);
  double bits = 0;
  for (const auto& one : report->tensors) {
    if (one.name == fallen.name) {
      EXPECT_EQ(one.block, "layers.0.fallback");
      EXPECT_GT(one.bits_per_weight, 5.5);
    } else {
      bits += one.bits_per_weight / 2;
    }
  }
  EXPECT_NEAR(bits, 2.5, 0.02);
  ASSERT_TRUE(ecq::verify_checkpoint(cpu{}, packed, model));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  const auto ours = *ecq::checkpoint::open(restored);
  write_model(model, {fallen});
  ASSERT_TRUE(compress({.method = entquant{.lambda = 0.0}}));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, folder / "absmax"));
  const auto absmax = *ecq::checkpoint::open(folder / "absmax");
  EXPECT_TRUE(ecq_test::as_text(ours.bytes(*ours.find(fallen.name))) ==
              ecq_test::as_text(absmax.bytes(*absmax.find(fallen.name))));

  // A model with fallback layers only, and a method without a fallback.
  EXPECT_TRUE(compress({.method = entquant{.target_bits = 2.5}, .fallback_names = {"*"}}));
  EXPECT_EQ(compress({.method = lossless_weights{}, .fallback_names = {"*"}}).error().code(), errc::invalid_argument);
}

TEST_F(QuantizedCheckpoint, BytesAreNotWeights) {
  write_model(model, {{"layers.0.qweight", "I32", {32, 64}, some_bytes(8192, 9)}});
  ASSERT_TRUE(compress({.method = lossless_weights{}}));
  const auto container = ecq::container_reader::open(packed);
  ASSERT_TRUE(container);
  const auto block = container->load(0);
  const auto decoder = ecq::block_decoder::open(*block);
  ASSERT_TRUE(decoder);
  std::vector<float> out(8192);
  const auto refused = decoder->decode(cpu{}, 0, 0, ecq::matrix_view<float>(out.data(), 8192, 1));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("I32"), std::string::npos);
}

}  // namespace
