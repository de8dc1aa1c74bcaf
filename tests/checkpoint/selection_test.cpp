#include "ecq/checkpoint/selection.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using ecq::dtype;
using ecq::glob_match;

TEST(GlobMatch, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*", "anything"));
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_TRUE(glob_match("*.q_proj.*", "model.layers.0.q_proj.weight"));
  EXPECT_TRUE(glob_match("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(glob_match("**x", "yyx"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_FALSE(glob_match("?", ""));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_FALSE(glob_match("*.k_proj.*", "model.layers.0.q_proj.weight"));
  EXPECT_FALSE(glob_match("a*b", "a-b-c"));
}

TEST(GlobMatch, TakesNoExponentialTime) { EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*b", std::string(20000, 'a'))); }

struct tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::optional<dtype> type = dtype::bf16;
};

std::vector<std::vector<std::string>> blocks_of(const std::vector<tensor>& tensors,
                                                const ecq::tensor_selection& rules = {}) {
  std::vector<ecq::tensor_summary> summaries;
  for (const tensor& one : tensors) summaries.push_back({one.name, one.type, one.shape});
  const auto blocks = ecq::select_tensors(rules, summaries);
  EXPECT_TRUE(blocks) << blocks.error().to_string();
  std::vector<std::vector<std::string>> names;
  for (const auto& block : *blocks) {
    names.push_back({block.name});
    for (const std::size_t position : block.tensors) names.back().push_back(tensors[position].name);
  }
  return names;
}

using expected = std::vector<std::vector<std::string>>;

TEST(SelectTensors, GroupsALlamaByLayer) {
  EXPECT_EQ(blocks_of({{"model.embed_tokens.weight", {100, 8}},
                       {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                       {"model.layers.10.mlp.up_proj.weight", {32, 8}},
                       {"model.layers.0.input_layernorm.weight", {8}},
                       {"model.layers.1.mlp.up_proj.weight", {32, 8}},
                       {"model.layers.0.mlp.up_proj.weight", {32, 8}},
                       {"lm_head.weight", {100, 8}}}),
            (expected{{"model.layers.0", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"},
                      {"model.layers.10", "model.layers.10.mlp.up_proj.weight"},
                      {"model.layers.1", "model.layers.1.mlp.up_proj.weight"}}));
}

TEST(SelectTensors, TakesWeightsOfTwoDimensionsAndMore) {
  EXPECT_EQ(blocks_of({{"conv.weight", {4, 5, 3}},
                       {"conv.bias", {4}},
                       {"scalar", {}},
                       {"empty", {4, 0}},
                       {"ids", {4, 4}, std::nullopt},
                       {"quantised", {4, 4}, dtype::int8},
                       {"fp8", {1, 1}, dtype::fp8_e4m3}}),
            (expected{{"tensors.0", "conv.weight", "fp8"}}));
}

// Names in T5, RWKV, ChatGLM, BERT, GPT-2, gpt-oss, Swin, Mamba, DiT and BLIP-2.
TEST(SelectTensors, LeavesEmbeddingsAndWhatIsNoLinearWeight) {
  const std::vector<tensor> tensors = {{"shared.weight", {9, 9}},
                                       {"emb.weight", {9, 9}},
                                       {"head.weight", {9, 9}},
                                       {"transformer.output_layer.weight", {9, 9}},
                                       {"cls.predictions.decoder.weight", {9, 9}},
                                       {"h.0.attn.bias", {1, 1, 9, 9}},
                                       {"h.0.attn.masked_bias", {1, 1}},
                                       {"model.layers.0.mlp.experts.gate_up_proj_bias", {4, 9}},
                                       {"layers.0.attn.relative_position_bias_table", {9, 4}},
                                       {"backbone.layers.0.mixer.A_log", {9, 4}},
                                       {"stages.0.grn.weight", {1, 9}},
                                       {"layers.0.norm2.weight", {1, 9}},
                                       {"layers.0.gamma", {1, 1, 9}},
                                       {"blocks.0.att.time_mix_key", {1, 1, 9}},
                                       {"blocks.0.scale_shift_table", {6, 9}},
                                       {"query_tokens", {1, 32, 9}},
                                       {"block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 9}},
                                       {"attn_mask", {9, 9}},
                                       {"classifier.weight", {9, 9}},
                                       {"model.layers.61.shared_head.head.weight", {9, 9}},
                                       {"h.0.attn.c_attn.weight", {9, 9}},
                                       {"blocks.0.norm1.linear.weight", {9, 9}},
                                       {"model.layers.0.mlp.experts.gate_up_proj", {4, 9, 9}}};
  EXPECT_EQ(blocks_of(tensors), (expected{{"h.0", "h.0.attn.c_attn.weight"},
                                          {"blocks.0", "blocks.0.norm1.linear.weight"},
                                          {"model.layers.0", "model.layers.0.mlp.experts.gate_up_proj"}}));
  const auto count = [&](const ecq::tensor_selection& rules) {
    std::size_t all = 0;
    for (const auto& block : blocks_of(tensors, rules)) all += block.size() - 1;
    return all;
  };
  EXPECT_EQ(count({.everything = true}), tensors.size());
  EXPECT_EQ(count({.embeddings = true}), 10U);
  EXPECT_EQ(count({.include = {"*A_log"}}), 4U);
}

TEST(OwnName, BeginsBeforeTheLastNumber) {
  EXPECT_EQ(ecq::own_name("conditioner.embedders.0.model.layers.11.q_proj.weight"), "layers.11.q_proj.weight");
  EXPECT_EQ(ecq::own_name("time_embed.2.weight"), "time_embed.2.weight");
  EXPECT_EQ(ecq::own_name("a.time_embed.2.weight"), "time_embed.2.weight");
  EXPECT_EQ(ecq::own_name("model.embed_tokens.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(ecq::own_name("a.0"), "a.0");
  for (const char* odd : {"", ".", "..", "0", "0.a", ".0", "a..0.b", "1.2.3"}) {
    EXPECT_TRUE(std::string_view(odd).ends_with(ecq::own_name(odd))) << odd;
  }
}

// Embedders are models of their own, whose layers are like any others.
TEST(SelectTensors, TakesTheLayersOfEmbedders) {
  EXPECT_EQ(blocks_of({{"conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight", {99, 9}},
                       {"conditioner.embedders.0.transformer.text_model.encoder.layers.1.mlp.fc1.weight", {9, 9}},
                       {"model.vision_embed_tokens.img_processor.vision_model.encoder.layers.0.mlp.fc1.weight", {9, 9}},
                       {"conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight", {9, 9}},
                       {"embedder.embedder.convolution.weight", {9, 3, 7, 7}}}),
            (expected{{"conditioner.embedders.0.transformer.text_model.encoder.layers.1",
                       "conditioner.embedders.0.transformer.text_model.encoder.layers.1.mlp.fc1.weight"},
                      {"model.vision_embed_tokens.img_processor.vision_model.encoder.layers.0",
                       "model.vision_embed_tokens.img_processor.vision_model.encoder.layers.0.mlp.fc1.weight"},
                      {"tensors.0", "conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight"}}));
}

// Routers of Mixtral, DeepSeek, Jamba and Qwen2-MoE; a gate that is a matrix like any other; magnitudes of weight
// norms, a kernel of Mamba, and tensors of one row; convolutions from and to pixels, and of one channel each; experts.
TEST(SelectTensors, LeavesRoutersAndThinTensors) {
  const std::vector<tensor> tensors = {{"model.layers.0.block_sparse_moe.gate.weight", {8, 64}},
                                       {"model.layers.0.mlp.gate.weight", {16, 64}},
                                       {"model.layers.0.feed_forward.router.weight", {8, 64}},
                                       {"model.layers.0.mlp.shared_expert_gate.weight", {1, 64}},
                                       {"blocks.0.attention.gate.weight", {64, 64}},
                                       {"decoder.conv_pre.weight_g", {64, 1, 1}},
                                       {"decoder.conv_pre.weight_v", {64, 5, 7}},
                                       {"conv_in.weight", {64, 4, 3, 3}},
                                       {"conv_out.weight", {3, 64, 3, 3}},
                                       {"stages.0.blocks.0.conv_dw.weight", {64, 1, 7, 7}},
                                       {"layers.0.experts", {4, 4, 64}},
                                       {"backbone.layers.0.mixer.conv1d.weight", {64, 1, 4}},
                                       {"latents", {1, 64, 64}}};
  EXPECT_EQ(blocks_of(tensors), (expected{{"blocks.0", "blocks.0.attention.gate.weight"},
                                          {"tensors.0", "decoder.conv_pre.weight_v"},
                                          {"layers.0", "layers.0.experts"}}));
  EXPECT_EQ(blocks_of(tensors, {.include = {"*gate.weight", "latents"}}).size(), 4U);
}

// Outside of layers, a tensor with the shape of an embedding is an output head, whatever its name.
TEST(SelectTensors, LeavesOutputHeadsOfAnyName) {
  const std::vector<tensor> tensors = {{"model.decoder.embed_tokens.weight", {99, 9}},
                                       {"proj_out.weight", {99, 9}},
                                       {"pooler.weight", {9, 9}},
                                       {"layers.0.odd.weight", {99, 9}}};
  EXPECT_EQ(blocks_of(tensors), (expected{{"tensors.0", "pooler.weight"}, {"layers.0", "layers.0.odd.weight"}}));
  EXPECT_EQ(blocks_of(tensors, {.include = {"proj_out*"}}).size(), 2U);
  EXPECT_EQ(blocks_of(tensors, {.include = {"proj_out*"}})[0].size(), 3U);
  EXPECT_EQ(blocks_of(tensors, {.embeddings = true})[0].size(), 4U);
}

// A hostile header may have many embeddings, all of different shapes: no tensor may be compared with all of them.
TEST(SelectTensors, ManyEmbeddingsTakeNoSquareOfTheirNumber) {
  std::vector<tensor> tensors;
  for (std::uint64_t i = 1; i <= 100'000; ++i) {
    tensors.push_back({"embed", {i, 9}});
    tensors.push_back({"w", {i, 8}});
  }
  EXPECT_FALSE(blocks_of(tensors).empty());
}

TEST(SelectTensors, IncludesAndExcludesByName) {
  const std::vector<tensor> tensors = {{"embed.weight", {9, 9}}, {"layers.0.q", {9, 9}}, {"layers.0.k", {9, 9}}};
  EXPECT_EQ(blocks_of(tensors, {.include = {"embed*"}, .exclude = {"*.k"}}),
            (expected{{"tensors.0", "embed.weight"}, {"layers.0", "layers.0.q"}}));
  EXPECT_EQ(blocks_of(tensors, {.include = {"*"}, .exclude = {"*"}}), expected{});
}

TEST(SelectTensors, SharedBlocksAreClosedWhenTheyAreFull) {
  const std::uint64_t half = ecq::shared_block_weights / 2;
  EXPECT_EQ(blocks_of({{"a", {half, 1}}, {"b", {2, half - 1}}, {"c", {1, 1}}, {"d", {1U << 31, 1U << 31}}}),
            (expected{{"tensors.0", "a", "b"}, {"tensors.1", "c", "d"}}));
}

TEST(SelectTensors, ReportsABadBlockPattern) {
  const auto blocks = ecq::select_tensors({.block_pattern = "("}, {});
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code(), ecq::errc::invalid_argument);
}

TEST(SelectTensors, BlockPatternsThatBacktrackWithoutEndAreErrors) {
  const std::vector<std::uint64_t> shape{9, 9};
  const std::string name = std::string(1000, 'a') + "!";
  std::string choices;
  for (int count = 0; count < 50; ++count) choices += "(?:|)";
  for (const std::string& pattern : {std::string("(a+)+$"), std::string("(a|a)*$"), std::string("(a|aa)+$"),
                                     std::string(".*a.*a.*a.*a.*b"), choices + "b", choices + "$", choices + "(?!)"}) {
    SCOPED_TRACE(pattern);
    const ecq::tensor_summary tensor{name, dtype::bf16, shape};
    const auto blocks = ecq::select_tensors({.block_pattern = pattern}, {&tensor, 1});
    ASSERT_FALSE(blocks);
    EXPECT_EQ(blocks.error().code(), ecq::errc::invalid_argument);
    EXPECT_NE(blocks.error().message().find("takes too long"), std::string::npos) << blocks.error().message();
    EXPECT_NE(blocks.error().message().find(pattern), std::string::npos);
  }
}

TEST(SelectTensors, BlockPatternsHaveNoBackReferences) {
  const auto blocks = ecq::select_tensors({.block_pattern = R"((a)\1)"}, {});
  ASSERT_FALSE(blocks);
  EXPECT_NE(blocks.error().message().find("back-reference"), std::string::npos);
  EXPECT_EQ(blocks_of({{R"(a.1\2)", {9, 9}}}, {.block_pattern = R"(a\.1\\2)"}).front().front(), R"(a.1\2)");
}

TEST(SelectTensors, OrdinaryPatternsMatchManyLongNames) {
  std::string name = "model";
  while (name.size() < 1000) name += ".decoder.x";
  std::vector<tensor> tensors;
  for (int layer = 0; layer < 2000; ++layer) tensors.push_back({name + ".layers." + std::to_string(layer % 7), {9, 9}});
  EXPECT_EQ(blocks_of(tensors).size(), 7U);
  EXPECT_EQ(blocks_of(tensors, {.block_pattern = R"(layers\.[0-9]+)"}).size(), 7U);
}

TEST(SelectTensors, NamesTooLongForARegularExpressionAreNoCrash) {
  EXPECT_EQ(blocks_of({{"layers.0." + std::string(1000000, 'x'), {9, 9}}}).front().front(), "tensors.0");
}

}  // namespace
