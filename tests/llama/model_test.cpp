// Models that differ from what their config.json says, and the memory that weights take.

#include "../../examples/llama/model.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "llama/tiny_model.hpp"

namespace {

using llama::weight_mode;
using llama_test::tiny_model;

class LlamaModel : public testing::Test {
 protected:
  std::string error_of(const std::filesystem::path& path, weight_mode mode = weight_mode::dense) {
    const auto opened = llama::model::open(path, mode, ecq::cpu{});
    return opened ? "" : opened.error().to_string();
  }
  std::string error_of(const tiny_model& model) {
    model.write(folder.path());
    return error_of(folder.path());
  }
  /// Returns whether the errors of the plain model and of its container both end with `expected`.
  bool both_end_with(const tiny_model& model, const std::string& expected) {
    std::filesystem::remove_all(folder / "packed");
    model.write(folder / "plain");
    EXPECT_TRUE(
        ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed", {.method = ecq::lossless_weights{}}));
    const std::string plain = error_of(folder / "plain"), packed = error_of(folder / "packed");
    EXPECT_TRUE(plain.ends_with(expected)) << plain;
    EXPECT_TRUE(packed.ends_with(expected)) << packed;
    return plain.ends_with(expected) && packed.ends_with(expected);
  }

  ecq_test::temporary_folder folder;
};

TEST_F(LlamaModel, MissingTensorsAreNamed) {
  for (const char* const architecture : {"LlamaForCausalLM", "Qwen3MoeForCausalLM", "MixtralForCausalLM"}) {
    tiny_model each;
    each.become(architecture);
    for (const auto& tensor : each.tensors) {
      tiny_model model = each;
      std::erase_if(model.tensors, [&](const auto& other) { return other.name == tensor.name; });
      EXPECT_TRUE(error_of(model).ends_with("tensor '" + tensor.name + "' is missing")) << error_of(folder.path());
    }
  }
}

TEST_F(LlamaModel, WrongShapesAreNamed) {
  for (const auto& tensor : tiny_model().tensors) {
    tiny_model model;
    auto& changed = model.tensor_named(tensor.name);
    changed.bytes.resize(changed.bytes.size() / changed.shape[0] * (changed.shape[0] - 1));
    --changed.shape[0];
    EXPECT_NE(error_of(model).find("tensor '" + tensor.name + "': its shape is ["), std::string::npos);
  }
  tiny_model model;
  model.config["intermediate_size"] = "89";
  EXPECT_TRUE(
      both_end_with(model,
                    "tensor 'model.layers.0.mlp.gate_proj.weight': its shape is [88, 64], but config.json needs "
                    "[89, 64]"));
  model = tiny_model();
  model.config["vocab_size"] = "16777216";
  EXPECT_TRUE(both_end_with(model, "config.json needs [16777216, 64]"));
}

TEST_F(LlamaModel, OtherElementsAreRefused) {
  tiny_model model;
  auto& tensor = model.tensor_named("model.layers.1.mlp.up_proj.weight");
  tensor.dtype = "I16";
  EXPECT_TRUE(
      both_end_with(model, "tensor 'model.layers.1.mlp.up_proj.weight': elements of type I16, not BF16, F16 or F32"));
}

TEST_F(LlamaModel, AHeadOfItsOwnIsNotTied) {
  tiny_model model;
  model.config["tie_word_embeddings"] = "true";
  const auto is_tied = [&](const std::filesystem::path& path) {
    const auto opened = llama::model::open(path, weight_mode::dense, ecq::cpu{});
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened->config().tied;
  };
  model.write(folder / "plain");
  EXPECT_FALSE(is_tied(folder / "plain"));
  ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed",
                                   {.method = ecq::entquant{.target_bits = 4.0}}));
  EXPECT_FALSE(is_tied(folder / "packed"));
  model.tensor_named("lm_head.weight").bytes = model.tensor_named("model.embed_tokens.weight").bytes;
  model.write(folder / "equal");
  EXPECT_TRUE(is_tied(folder / "equal"));
}

TEST_F(LlamaModel, MoreThanTheConfigSaysIsRefused) {
  tiny_model model;
  model.config["num_hidden_layers"] = "1";
  EXPECT_NE(error_of(model).find("config.json has only 1 layers"), std::string::npos);
  for (const auto& [name, what] : {std::pair("model.layers.0.self_attn.q_proj.bias", "a bias"),
                                   {"lm_head.bias", "a bias"},
                                   {"model.layers.0.self_attn.q_norm.weight", "a norm"}}) {
    model = tiny_model();
    model.tensors.push_back({name, "BF16", {48}, std::string(96, '\0')});
    EXPECT_TRUE(error_of(model).ends_with("tensor '" + std::string(name) + "': " + what +
                                          " that config.json does not mention"));
  }
}

TEST_F(LlamaModel, DamagedFilesAreRefused) {
  tiny_model().write(folder / "plain");
  ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed",
                                   {.method = ecq::entquant{.target_bits = 4.0}}));
  for (const char* const name : {"plain", "packed"}) {
    const auto file = folder / name / "model.safetensors";
    const std::string whole = ecq_test::read_file(file);
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, whole.size() / 2, whole.size() - 1}) {
      ecq_test::write_file(file, whole.substr(0, size));
      EXPECT_NE(error_of(folder / name), "") << name << ' ' << size;
    }
    ecq_test::write_file(file, whole);
    EXPECT_EQ(error_of(folder / name), "");
  }
  // Damage to any byte of a container's data is found; plain files have no checksums.
  const auto file = folder / "packed" / "model.safetensors";
  std::string changed = ecq_test::read_file(file);
  for (std::size_t at = changed.size() - 1; at > changed.size() / 2; at -= 4099) {
    changed[at] = static_cast<char>(changed[at] ^ 1);
    ecq_test::write_file(file, changed);
    EXPECT_NE(error_of(folder / "packed"), "") << at;
    changed[at] = static_cast<char>(changed[at] ^ 1);
  }
  EXPECT_NE(error_of(folder / "nowhere"), "");
}

TEST_F(LlamaModel, DamageThatDecodingFindsEndsThePassThatMeetsIt) {
  tiny_model().write(folder / "plain");
  ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed",
                                   {.method = ecq::entquant{.target_bits = 4.0}}));
  const auto file = folder / "packed" / "model.safetensors";
  std::string changed = ecq_test::read_file(file);
  const auto containers = ecq::open_containers(folder / "packed");
  ASSERT_TRUE(containers);
  const auto& reader = containers->front();
  const auto block = reader.load(1);
  ASSERT_TRUE(block);
  const std::size_t last =
      static_cast<std::size_t>(block->stream.data() - reader.file().header_bytes().data()) + block->stream.size() / 2;
  changed[last] = static_cast<char>(changed[last] ^ 1);
  ecq_test::write_file(file, changed);
  EXPECT_NE(error_of(folder / "packed"), "");
  const auto opened = llama::model::open(folder / "packed", weight_mode::block, ecq::cpu{});
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_TRUE(opened->layers().layer(0));
  for (int again = 0; again < 2; ++again) {
    const auto met = opened->layers().layer(1);
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), ecq::errc::checksum_mismatch) << met.error().to_string();
  }
  EXPECT_TRUE(opened->layers().layer(0));
}

TEST_F(LlamaModel, CountsWeightsAsTheyLie) {
  tiny_model model(true);
  model.write(folder / "plain");
  std::size_t parameters = 0, norms = 0;
  for (const auto& [name, values] : model.values)
    (name.find("norm") != std::string::npos ? norms : parameters) += values.size();
  const auto plain = llama::model::open(folder / "plain", weight_mode::block, ecq::cpu{});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->memory().total(), 2 * parameters + 4 * norms);
  EXPECT_EQ(plain->memory().dense, plain->memory().total());
  ASSERT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed",
                                   {.method = ecq::entquant{.target_bits = 3.0}}));
  const auto dense = llama::model::open(folder / "packed", weight_mode::dense, ecq::cpu{});
  const auto block = llama::model::open(folder / "packed", weight_mode::block, ecq::cpu{});
  ASSERT_TRUE(dense && block);
  EXPECT_EQ(dense->memory().total(), plain->memory().total());
  const std::size_t outside = tiny_model::vocabulary * tiny_model::hidden;
  EXPECT_EQ(block->memory().dense, 2 * outside + 4 * norms);
  EXPECT_EQ(block->memory().buffers, 2 * (parameters - outside));  // two layers, each in a buffer
  EXPECT_NEAR(static_cast<double>(block->memory().coded), 3.0 / 8 * static_cast<double>(parameters - outside), 200.0);
}

}  // namespace
