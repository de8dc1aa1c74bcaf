// The program ecq-llama: its answers, its exit codes, and its one-line error messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "llama/tiny_model.hpp"
#include "support/places.hpp"
#include "tool/tool.hpp"

namespace {

using llama_test::tiny_model;
using tool_test::json;
using tool_test::outcome;

class EcqLlama : public tool_test::Tool {
 protected:
  void SetUp() override {
    tiny_model().write(path("model"));
    tool_test::write_text(path("text"), std::string(100, 'x').append("The quick brown fox jumps over the lazy dog"));
  }

  outcome llama(const std::vector<std::string>& arguments) const {
    return run_program(ecq_test::llama_program(), arguments);
  }

  json answer(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const outcome result = llama(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.answer();
  }

  /// Returns whether the program failed with this exit code and one line that ends in `end`.
  static bool fails(const outcome& result, int code, const std::string& end) {
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_TRUE(result.err.starts_with("ecq-llama: ")) << result.err;
    EXPECT_TRUE(result.err.ends_with(end + "\n")) << result.err;
    return result.exit_code == code;
  }
};

TEST_F(EcqLlama, GivesTheSameInEveryMode) {
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{{"--lossless"}, {"--bits", "3"}}) {
    std::filesystem::remove_all(path("packed"));
    std::vector<std::string> compress{"compress", path("model"), "-o", path("packed"), "-q"};
    compress.insert(compress.end(), how.begin(), how.end());
    ASSERT_EQ(run(compress).exit_code, 0);
    json dense, block;
    for (json* const each : {&dense, &block}) {
      const std::string mode = each == &dense ? "dense" : "block";
      *each =
          answer({"generate", path("packed"), "--prompt", "The", "--tokens", "9", "--mode", mode, "--threads", "2"});
      EXPECT_EQ((*each)["prompt_tokens"], (json{84, 104, 101}));
      EXPECT_EQ((*each)["tokens"].size(), 9U);
      EXPECT_EQ((*each)["mode"], mode);
      (*each)["loss"] = answer({"perplexity", path("packed"), path("text"), "--window", "40", "--mode", mode})["loss"];
    }
    EXPECT_EQ(dense["tokens"], block["tokens"]);
    EXPECT_EQ(dense["loss"], block["loss"]);
    EXPECT_EQ(dense["coded_bytes"], 0);
    EXPECT_GT(block["coded_bytes"], 0);
    EXPECT_GT(block["peak_bytes"], block["weight_bytes"]);
    for (const std::string activations : {"bf16", "int8"}) {
      const json fused = answer({"perplexity", path("packed"), path("text"), "--window", "40", "--mode", "fused",
                                 "--activations", activations});
      EXPECT_EQ(fused["activations"], activations);
      EXPECT_NE(fused["loss"], dense["loss"]);
      EXPECT_NEAR(fused["loss"].get<double>() / dense["loss"].get<double>(), 1, 0.05);
    }
    if (how[0] == "--lossless") {
      EXPECT_EQ(answer({"perplexity", path("model"), path("text"), "--window", "40"})["loss"], dense["loss"]);
    }
  }
}

/// Tests with the model that comes with the example: trained weights, coded without loss.
class EcqLlamaTrained : public EcqLlama {
 protected:
  const std::string shipped = (ecq_test::source_folder() / "examples/llama/model").string();

  /// Returns the loss in nats per token over 512 tokens of text that the model was not trained on.
  double loss(const std::string& model, const std::string& mode) const {
    return answer({"perplexity", model, shipped + "/heldout.txt", "--windows", "2", "--mode", mode})["loss"]
        .get<double>();
  }
};

using EcqLlamaFigures = EcqLlamaTrained;

TEST_F(EcqLlamaFigures, PredictsTextThatItHasNotSeen) {
  const double dense = loss(shipped, "dense");
  EXPECT_LT(dense, 2.57);  // tokens at random: ln(1024) = 6.93
  EXPECT_EQ(loss(shipped, "block"), dense);
  EXPECT_NEAR(loss(shipped, "fused"), dense, 1e-4);
}

TEST_F(EcqLlamaTrained, ContinuesTextAlikeFromDenseAndFromCodedWeights) {
  const auto continued = [&](const std::string& mode) {
    return answer({"generate", shipped, "--prompt", "/// Returns the ", "--tokens", "32", "--mode", mode})["tokens"];
  };
  const json dense = continued("dense");
  EXPECT_EQ(dense.size(), 32U);
  EXPECT_EQ(continued("block"), dense);
}

TEST_F(EcqLlamaFigures, LosesLittleAtFourBitsAndMoreAtTwo) {
  ASSERT_EQ(run({"decompress", shipped, "-o", path("plain"), "-q"}).exit_code, 0);
  for (const char* const bits : {"4", "2.1"}) {
    ASSERT_EQ(run({"compress", path("plain"), "-o", path(bits), "--bits", bits, "-q"}).exit_code, 0);
  }
  const double plain = loss(path("plain"), "dense");
  const double four = loss(path("4"), "fused");
  const double two = loss(path("2.1"), "fused");
  EXPECT_LT(four, plain + 0.05);
  EXPECT_GT(two, four);
  EXPECT_LT(two, plain + 0.5);
}

TEST_F(EcqLlamaFigures, FeedbackLosesLessAtTheSameBits) {
  ASSERT_EQ(run({"decompress", shipped, "-o", path("plain"), "-q"}).exit_code, 0);
  ASSERT_EQ(run({"compress", path("plain"), "-o", path("2.1"), "--bits", "2.1", "-q"}).exit_code, 0);
  ASSERT_EQ(llama({"compress", path("plain"), "-o", path("fed"), "--bits", "2.1", "--tokens", "1024", "-q"}).exit_code,
            0);
  const json rows = answer({"compare", path("plain"), path("2.1"), path("fed"), "--text", shipped + "/heldout.txt",
                            "--windows", "4"})["rows"];
  EXPECT_NEAR(rows[2]["bits_per_weight"].get<double>(), 2.1, 0.02);
  EXPECT_LT(rows[2]["divergence_mnat"].get<double>(), 0.9 * rows[1]["divergence_mnat"].get<double>());
  EXPECT_LT(rows[2]["loss"], rows[1]["loss"]);
}

TEST_F(EcqLlamaFigures, ComparesWhatRatesCost) {
  ASSERT_EQ(run({"decompress", shipped, "-o", path("plain"), "-q"}).exit_code, 0);
  for (const char* const bits : {"4", "2.1"}) {
    ASSERT_EQ(run({"compress", path("plain"), "-o", path(bits), "--bits", bits, "-q"}).exit_code, 0);
  }
  const std::vector<std::string> compare{
      "compare", path("plain"), shipped, path("4"), path("2.1"), "--text", shipped + "/heldout.txt", "--windows", "2"};
  std::vector<std::string> drawn = compare;
  drawn.insert(drawn.end(), {"--svg", path("rates.svg")});
  const json seen = answer(drawn);
  EXPECT_EQ(seen["windows"], 2);
  EXPECT_EQ(seen["predictions"], 512);
  ASSERT_EQ(seen["rows"].size(), 4U);
  for (const json& row : seen["rows"]) {
    EXPECT_EQ(row.size(), 8U);
    EXPECT_EQ(row["method"], "");
    EXPECT_GE(row["divergence_mnat"], 0);
    EXPECT_GE(row["largest_divergence_mnat"], row["divergence_mnat"]);
    EXPECT_NEAR(row["loss"].get<double>() - seen["rows"][0]["loss"].get<double>(),
                row["loss_difference_mnat"].get<double>() / 1000, 1e-12);
  }
  for (const std::size_t exact : {0U, 1U}) {
    EXPECT_EQ(seen["rows"][exact]["divergence_mnat"], 0);
    EXPECT_EQ(seen["rows"][exact]["loss_difference_mnat"], 0);
    EXPECT_EQ(seen["rows"][exact]["unbiased_sqnr_db"], "inf");
  }
  const json &four = seen["rows"][2], &two = seen["rows"][3];
  EXPECT_EQ(seen["rows"][0]["bits_per_weight"], 16);
  EXPECT_EQ(four["bits_per_weight"], ask({"inspect", path("4")})["totals"]["bits_per_weight"]);
  EXPECT_EQ(four["loss"].get<double>(), loss(path("4"), "dense"));
  EXPECT_GT(two["divergence_mnat"].get<double>(), 4 * four["divergence_mnat"].get<double>());
  EXPECT_GT(four["unbiased_sqnr_db"].get<double>(), two["unbiased_sqnr_db"].get<double>() + 6);
  const std::string picture = tool_test::read_text(path("rates.svg"));
  for (const char* const words : {"KL divergence", ">2.1</text>", "</svg>"}) {
    EXPECT_NE(picture.find(words), std::string::npos) << words;
  }
  std::vector<std::string> fused = compare;
  fused.insert(fused.end(), {"--mode", "fused"});
  EXPECT_NEAR(answer(fused)["rows"][3]["divergence_mnat"].get<double>() / two["divergence_mnat"].get<double>(), 1,
              0.02);
}

TEST_F(EcqLlama, MakesTheModelsThatItCompares) {
  const std::vector<std::string> compare{
      "compare",    path("model"), "--text",   path("text"),    "--window", "20",  "--bits", "4,6",           "--into",
      path("made"), "--methods",   "entquant", "feedback-tcq4", "--tokens", "600", "--svg",  path("made.svg")};
  const json rows = answer(compare)["rows"];
  ASSERT_EQ(rows.size(), 5U);
  const std::array<std::string, 4> names{"entquant-4", "entquant-6", "feedback-tcq4-4", "feedback-tcq4-6"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const json& row = rows[i + 1];
    EXPECT_EQ(row["model"], path("made/" + names[i]));
    EXPECT_EQ(row["method"], names[i].substr(0, names[i].size() - 2));
    EXPECT_NEAR(row["bits_per_weight"].get<double>(), i % 2 == 0 ? 4 : 6, 0.06);
    EXPECT_EQ(run({"verify", path("made/" + names[i]), "--against", path("model")}).exit_code, 0);
  }
  const std::string picture = tool_test::read_text(path("made.svg"));
  for (const char* const words : {">entquant</text>", ">feedback-tcq4</text>"}) {
    EXPECT_NE(picture.find(words), std::string::npos) << words;
  }
}

TEST_F(EcqLlama, RefusesToMakeModelsThatItCompares) {
  const auto compare = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"compare", path("model"), "--text", path("text"), "--window", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llama(arguments);
  };
  EXPECT_EQ(compare({"--bits", "3"}).exit_code, 2);
  EXPECT_EQ(compare({"--bits", "9", "--into", path("made")}).exit_code, 2);
  EXPECT_EQ(compare({"--bits", "3", "3", "--into", path("made")}).exit_code, 2);
  EXPECT_EQ(compare({path("model"), "--methods", "tcq8"}).exit_code, 2);
  EXPECT_EQ(compare({"--bits", "3", "--into", path("made"), "--methods", "tcq5"}).exit_code, 2);
  EXPECT_TRUE(fails(compare({"--bits", "3", "--into", path("text")}), 1, "work/text': Not a directory"));
  EXPECT_EQ(run({"compress", path("model"), "-o", path("coded"), "-q"}).exit_code, 0);
  EXPECT_TRUE(fails(llama({"compare", path("coded"), "--text", path("text"), "--window", "20", "--bits", "3", "--into",
                           path("made")}),
                    1, "is already compressed"));
}

TEST_F(EcqLlama, ReplacesNoFileThatItReads) {
  tool_test::write_text(path("model/generation_config.json"), "{}");
  for (const std::string name : {"config.json", "generation_config.json"}) {
    EXPECT_TRUE(fails(llama({"super-weights", path("model"), "-o", path("model/" + name)}), 1, name + "'")) << name;
    EXPECT_NE(tool_test::read_text(path("model/" + name)).find('{'), std::string::npos);
  }
}

TEST_F(EcqLlama, CompressesFoldersAlone) {
  EXPECT_TRUE(fails(llama({"compress", path("model/model.safetensors"), "-o", path("made")}), 1,
                    "name the folder of the model, whose other files belong to the result"));
  EXPECT_FALSE(std::filesystem::exists(path("made")));
}

TEST_F(EcqLlama, RunsAMixtureOfExperts) {
  tiny_model experts;
  experts.become("MixtralForCausalLM");
  experts.write(path("experts"));
  ASSERT_EQ(run({"compress", path("experts"), "-o", path("packed"), "--bits", "4", "-q"}).exit_code, 0);
  json loss, bytes;
  for (const std::string mode : {"dense", "block", "fused"}) {
    const json shown = answer({"perplexity", path("packed"), path("text"), "--window", "40", "--mode", mode});
    loss[mode] = shown["loss"];
    bytes[mode] = shown["weight_bytes"];
  }
  EXPECT_LT(bytes["fused"], bytes["dense"]);
  EXPECT_EQ(loss["block"], loss["dense"]);
  EXPECT_NEAR(loss["fused"].get<double>() / loss["dense"].get<double>(), 1, 0.01);
  ASSERT_EQ(llama({"compare", path("experts"), "--bits", "4", "--into", path("made"), "--text", path("text"),
                   "--window", "40", "--tokens", "600", "--methods", "tcq8", "feedback"})
                .exit_code,
            0);
  for (const std::string made : {"tcq8-4", "feedback-4"}) {
    EXPECT_TRUE(std::filesystem::exists(path("made/" + made + "/config.json")));
  }
  const json sensitivities = answer({"calibrate", path("experts"), "-o", path("map.json"), "--tokens", "60"});
  EXPECT_EQ(sensitivities["tensors"].size(), tiny_model::layers * (4 + 3 * tiny_model::experts));
  EXPECT_EQ(
      run({"compress", path("experts"), "-o", path("by_map"), "--bits", "4", "--sensitivity", path("map.json"), "-q"})
          .exit_code,
      0);
}

TEST_F(EcqLlama, ComparesInText) {
  const std::vector<std::string> compare{"compare",    path("model"), path("model"), "--text",
                                         path("text"), "--window",    "20"};
  const outcome shown = llama(compare);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_TRUE(shown.out.starts_with("model ")) << shown.out;
  EXPECT_NE(shown.out.find(" over 120 predictions in 6 windows"), std::string::npos) << shown.out;
  std::vector<std::string> quiet = compare;
  quiet.emplace_back("-q");
  const outcome table = llama(quiet);
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 4) << table.out;
}

TEST_F(EcqLlama, RefusesToCompare) {
  const auto compare = [&](const std::string& coded, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"compare", path("model"), coded, "--text", path("text"), "--window", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llama(arguments);
  };
  tiny_model other;
  other.config["vocab_size"] = "100";
  for (const char* const name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    other.tensor_named(name).shape[0] = 100;
    other.tensor_named(name).bytes.resize(100 * tiny_model::hidden * 2);
  }
  other.write(path("other"));
  EXPECT_TRUE(fails(compare(path("other")), 1, "other': vocab_size is 100, but that of the original is 271"));
  EXPECT_TRUE(fails(compare(path("none")), 1, "No such file or directory"));
  EXPECT_EQ(compare(path("text")).exit_code, 1);
  EXPECT_TRUE(fails(llama({"compare", path("model"), path("model"), "--text", path("text")}), 1,
                    "windows of 256 predictions, not 1 to 48, the context of the model"));
  tool_test::write_text(path("short"), "abc");
  EXPECT_TRUE(fails(llama({"compare", path("model"), path("model"), "--text", path("short"), "--window", "20"}), 1,
                    "text has 3 tokens, but one window takes 21"));
  const std::string before = tool_test::read_text(path("model/config.json"));
  EXPECT_EQ(compare(path("model"), {"--svg", path("model/config.json")}).exit_code, 1);
  EXPECT_EQ(tool_test::read_text(path("model/config.json")), before);
  const std::string text = tool_test::read_text(path("text"));
  EXPECT_TRUE(
      fails(compare(path("model"), {"--svg", path("text")}), 1, "would replace the input '" + path("text") + "'"));
  EXPECT_EQ(tool_test::read_text(path("text")), text);
  std::filesystem::create_directories(path("made/entquant-4"));
  const std::string within = path("made/entquant-4/config.json");
  std::filesystem::copy_file(path("text"), within);
  const std::vector<std::string> made{"compare", path("model"), "--text", within,       "--window",  "20",
                                      "--bits",  "4",           "--into", path("made"), "--methods", "entquant"};
  EXPECT_EQ(llama(made).exit_code, 1);
  EXPECT_EQ(tool_test::read_text(within), text);
  EXPECT_TRUE(fails(llama({"compare", path("model"), "--text", path("text")}), 2,
                    "CODED or --bits is required (see ecq-llama compare --help)"));
}

TEST_F(EcqLlama, AnswersInText) {
  const outcome made = llama({"generate", path("model"), "--prompt", "The", "--tokens", "3"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(made.out.starts_with("The"));
  EXPECT_NE(made.out.find("3 tokens, "), std::string::npos);
  EXPECT_EQ(std::count(made.out.begin(), made.out.end(), '\x1b'), 0);
  const outcome loss = llama({"perplexity", path("model"), path("text"), "--window", "20", "--windows", "2"});
  EXPECT_EQ(loss.exit_code, 0) << loss.err;
  EXPECT_NE(loss.out.find(" over 40 predictions in 2 windows; "), std::string::npos) << loss.out;
  tool_test::write_text(path("tokens"), std::string(84, '\x01').replace(0, 1, "\x02"));
  EXPECT_EQ(answer({"perplexity", path("model"), path("tokens"), "--tokens-u16", "--window", "20"})["windows"], 2);
}

TEST_F(EcqLlama, FindsSuperWeights) {
  llama_test::tiny_model model;
  llama_test::plant_super_weight(model);
  model.write(path("super"));
  const json found = answer({"super-weights", path("super"), "-o", path("super.json"), "--top", "3"});
  ASSERT_EQ(found["super_weights"].size(), 1U);
  const json& one = found["super_weights"][0];
  EXPECT_EQ(one["tensor"], "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(one["row"], 17);
  EXPECT_EQ(one["column"], 33);
  EXPECT_EQ(one["weight"], 200);
  EXPECT_GT(one["input"], 50);
  EXPECT_GT(one["output"], 50);
  EXPECT_EQ(found["others"].size(), 3U);
  const json list = json::parse(tool_test::read_text(path("super.json")));
  EXPECT_EQ(list, json::parse(R"({"model.layers.0.mlp.down_proj.weight": [[17, 33]]})"));

  const outcome text = llama({"super-weights", path("super"), "--top", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("tensor ")) << text.out;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 7) << text.out;  // two lines drawn, one of words
  EXPECT_NE(text.out.find("\n1 super weight with input and output above 50 in a text of 44 tokens\n"),
            std::string::npos);

  EXPECT_EQ(llama({"super-weights", path("model"), "-o", path("super.json"), "-q"}).out, "");
  EXPECT_EQ(tool_test::read_text(path("super.json")), "{}\n");
  EXPECT_EQ(answer({"super-weights", path("super"), "--threshold", "1e9"})["super_weights"], json::array());
  EXPECT_EQ(answer({"super-weights", path("super"), "--text", "a"})["prompt_tokens"], json{97});
}

TEST_F(EcqLlama, KeepsSuperWeightsExact) {
  llama_test::tiny_model model;
  llama_test::plant_super_weight(model);
  model.write(path("super"));
  ASSERT_EQ(llama({"super-weights", path("super"), "-o", path("super.json"), "-q"}).exit_code, 0);
  const outcome packed =
      run({"compress", path("super"), "-o", path("packed"), "--bits", "3", "--exact", path("super.json"), "--json"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_EQ(packed.answer()["totals"]["exact"], 1);
  for (const char* const mode : {"dense", "block", "fused"}) {
    const json seen = answer({"super-weights", path("packed"), "--mode", mode});
    ASSERT_EQ(seen["super_weights"].size(), 1U) << mode;
    EXPECT_EQ(seen["super_weights"][0]["weight"], 200) << mode;
  }
}

TEST_F(EcqLlama, CalibratesForTheToolThatCompresses) {
  const std::vector<std::string> calibrate{"calibrate", path("model"), "-o",       path("s.json"),
                                           "--tokens",  "60",          "--window", "20"};
  const json measured = answer(calibrate);
  ASSERT_EQ(measured["tensors"].size(), 14U);
  const json list = json::parse(tool_test::read_text(path("s.json")));
  ASSERT_EQ(list.size(), 14U);
  for (const json& one : measured["tensors"]) {
    EXPECT_EQ(list[one["tensor"].get<std::string>()], one["sensitivity"]);
  }
  const outcome text = llama(calibrate);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("s.json: sensitivities of 14 tensors, in "), std::string::npos) << text.out;
  const auto compress = [&](const std::string& file) {
    return run({"compress", path("model"), "-o", path("packed"), "--bits", "4", "--sensitivity", file, "-q"});
  };
  EXPECT_EQ(compress(path("s.json")).exit_code, 0);
  EXPECT_EQ(run({"lambda", path("model"), "--bits", "4", "--sensitivity", path("s.json"), "-q"}).exit_code, 0);
  tool_test::write_text(path("empty.json"), "{}");
  EXPECT_EQ(compress(path("empty.json")).exit_code, 1);
  tool_test::write_text(path("other.json"), R"({"model.layers.9.mlp.up_proj.weight": 1})");
  const outcome other = compress(path("other.json"));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.err.find("model.layers.9.mlp.up_proj.weight"), std::string::npos) << other.err;
  EXPECT_EQ(run({"compress", path("model"), "-o", path("packed"), "--bits", "4", "--sensitivity", path("s.json"),
                 "--per-tensor"})
                .exit_code,
            2);
  EXPECT_EQ(llama({"calibrate", path("model"), "-o", path("s.json"), "--tokens", "0"}).exit_code, 2);
  EXPECT_EQ(llama({"calibrate", path("model")}).exit_code, 2);
  EXPECT_EQ(llama({"calibrate", path("model"), "-o", path("model/config.json")}).exit_code, 1);
}

TEST_F(EcqLlama, CompressesByWhatItsLayersSee) {
  const auto compress = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"compress", path("model"), "-o", path("fed")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const json report = answer(compress({"--bits", "4", "--tokens", "600", "--window", "40"}));
  EXPECT_NEAR(report["bits_per_weight"].get<double>(), 4, 0.03);
  EXPECT_GE(report["tokens"], 600);
  EXPECT_EQ(run({"verify", path("fed"), "--against", path("model")}).exit_code, 0);
  EXPECT_EQ(llama({"perplexity", path("fed"), path("text"), "--window", "40", "--mode", "fused"}).exit_code, 0);
  EXPECT_TRUE(fails(llama({"compress", path("fed"), "-o", path("again")}), 1, "is already compressed"));
  EXPECT_TRUE(fails(llama(compress({"--tokens", "30", "--window", "30"})), 1,
                    "30 tokens for 64 columns, but each column needs 1.000000"));
  EXPECT_TRUE(
      fails(llama(compress({"--bits", "0.05", "--tokens", "200"})), 1, "is the least that these weights reach"));
  tool_test::write_text(path("other.json"), R"({"model.layers.9.mlp.up_proj.weight": 1})");
  EXPECT_TRUE(fails(llama(compress({"--sensitivity", path("other.json")})), 1,
                    "'model.layers.9.mlp.up_proj.weight' has a sensitivity, but is not in the model"));
  const json along = answer(compress({"--bits", "4", "--trellis", "8", "--tokens", "600", "--window", "40"}));
  EXPECT_NEAR(along["bits_per_weight"].get<double>(), 4, 0.05);
  EXPECT_EQ(run({"verify", path("fed"), "--against", path("model")}).exit_code, 0);
  EXPECT_EQ(llama(compress({"--trellis", "5"})).exit_code, 2);
  EXPECT_EQ(llama(compress({"--bits", "0"})).exit_code, 2);
  EXPECT_EQ(llama(compress({"--correction", "2"})).exit_code, 2);
  EXPECT_EQ(llama({"compress", path("model")}).exit_code, 2);
  EXPECT_EQ(llama({"compress", path("model"), "-o", path("model"), "--tokens", "200"}).exit_code, 1);
}

TEST_F(EcqLlama, RefusesNumbersBelowZero) {
  EXPECT_EQ(llama({"generate", path("model"), "--tokens", "-1"}).exit_code, 2);
  EXPECT_EQ(llama({"perplexity", path("model"), path("text"), "--window", "-1"}).exit_code, 2);
  EXPECT_EQ(llama({"perplexity", path("model"), path("text"), "--windows", "-1"}).exit_code, 2);
}

TEST_F(EcqLlama, RefusesToLookForSuperWeights) {
  EXPECT_TRUE(fails(llama({"super-weights", path("model"), "--text", ""}), 1, "--text is empty"));
  EXPECT_TRUE(fails(llama({"super-weights", path("model"), "--text", std::string(49, 'a')}), 1,
                    "49 tokens, but the context has only 48"));
  for (const char* const threshold : {"nan", "-1", "much"}) {
    EXPECT_EQ(llama({"super-weights", path("model"), "--threshold", threshold}).exit_code, 2) << threshold;
  }
  EXPECT_EQ(llama({"super-weights", path("model"), "--top", "-1"}).exit_code, 2);
  EXPECT_EQ(llama({"super-weights", path("model"), "-o", "-"}).exit_code, 2);
  for (const char* const input : {"model/config.json", "model/model.safetensors"}) {
    const std::string before = tool_test::read_text(path(input));
    const outcome refused = llama({"super-weights", path("model"), "-o", path(input)});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_NE(refused.err.find("would replace the input"), std::string::npos) << refused.err;
    EXPECT_EQ(tool_test::read_text(path(input)), before);
  }
}

TEST_F(EcqLlama, ExplainsItself) {
  EXPECT_EQ(llama({}).exit_code, 2);
  for (const char* const about : {"--help", "--version"}) EXPECT_EQ(llama({about}).exit_code, 0);
  EXPECT_EQ(llama({"generate", "--help"}).exit_code, 0);
  EXPECT_TRUE(fails(llama({"generat"}), 2, "generat: did you mean generate? (see ecq-llama --help)"));
  EXPECT_TRUE(fails(llama({"generate"}), 2, "MODEL is required (see ecq-llama generate --help)"));
  EXPECT_EQ(llama({"generate", path("model"), "--mode", "sparse"}).exit_code, 2);
  EXPECT_EQ(llama({"generate", path("model"), "--temperature", "nan"}).exit_code, 2);
}

TEST_F(EcqLlama, FailsWithOneLine) {
  EXPECT_TRUE(fails(llama({"generate", path("none")}), 1, "No such file or directory"));
  EXPECT_TRUE(fails(llama({"generate", path("model"), "--prompt", std::string(49, 'a')}), 1,
                    "prompt has 49 tokens, but the context has only 48"));
  EXPECT_TRUE(fails(llama({"perplexity", path("model"), path("none")}), 1, "No such file or directory"));
  EXPECT_TRUE(fails(llama({"perplexity", path("model"), path("text"), "--window", "49"}), 1,
                    "windows of 49 predictions, not 1 to 48, the context of the model"));
  EXPECT_TRUE(fails(llama({"perplexity", path("model"), path("text"), "--activations", "int8"}), 1,
                    "rounded activations need mode fused"));
  tool_test::write_text(path("tokens"), "abcdef");
  EXPECT_TRUE(fails(llama({"perplexity", path("model"), path("tokens"), "--tokens-u16", "--window", "2"}), 1,
                    "token 25185 at position 0 of the text is outside the vocabulary of 271"));
  tool_test::write_text(path("model/tokenizer.json"), "[]");
  EXPECT_TRUE(fails(llama({"generate", path("model")}), 1, "tokenizer.json': is not a JSON object"));
  std::filesystem::resize_file(path("model/model.safetensors"), 5000);
  EXPECT_EQ(llama({"generate", path("model")}).exit_code, 1);
}

}  // namespace
