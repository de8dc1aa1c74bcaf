#include "ecq/io/model_config.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::parse_quantization_config;

TEST(ModelConfig, SaysHowWeightsAreQuantised) {
  const auto config = parse_quantization_config(
      R"({"a": [1, {"quantization_config": 2}], "quantization_config":
         {"x": null, "quant_method": "fp8", "weight_block_size": [128, 64], "y": {"quant_method": "z"}}})");
  ASSERT_TRUE(config && *config);
  EXPECT_EQ((*config)->method, "fp8");
  EXPECT_EQ((*config)->block, (std::vector<std::uint64_t>{128, 64}));
}

TEST(ModelConfig, MaySayNothing) {
  for (const std::string text : {"{}", R"({"quantization_config": null})", R"({"quantization_config": "fp8"})"}) {
    const auto config = parse_quantization_config(text);
    ASSERT_TRUE(config) << text;
    EXPECT_FALSE(*config) << text;
  }
  const auto other =
      parse_quantization_config(R"({"quantization_config": {"quant_method": 3, "weight_block_size": 4}})");
  ASSERT_TRUE(other && *other);
  EXPECT_TRUE((*other)->method.empty());
  EXPECT_TRUE((*other)->block.empty());
}

TEST(ModelConfig, RefusesWhatIsNoJson) {
  for (const std::string text : {"", "[]", "{", R"({"quantization_config": {"weight_block_size": [-1]}})", "{} x"}) {
    EXPECT_FALSE(parse_quantization_config(text)) << text;
  }
}

TEST(ModelConfig, MissingOrBrokenFilesSayNothing) {
  const ecq_test::temporary_folder folder;
  EXPECT_FALSE(ecq::read_quantization_config(folder.path()));
  ecq_test::write_file(folder / "config.json", "{");
  EXPECT_FALSE(ecq::read_quantization_config(folder.path()));
  ecq_test::write_file(folder / "config.json", R"({"quantization_config": {"quant_method": "awq"}})");
  const auto config = ecq::read_quantization_config(folder.path());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->method, "awq");
}

TEST(ModelConfig, LosesItsQuantizationAlone) {
  const std::string member = R"("quantization_config": {"a": [1, {"quantization_config": "}"}]})";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{}", "{}"},
      {"{ \"b\" : 1 }\n", "{ \"b\" : 1 }\n"},
      {"{" + member + "}", "{}"},
      {" {\n" + member + " ,\n \"b\": 2}", " {\n \"b\": 2}"},
      {"{\"b\": 2, " + member + "\n}", "{\"b\": 2\n}"},
      {"{\"b\": \"\\\",\", " + member + ", \"c\": {}}", "{\"b\": \"\\\",\", \"c\": {}}"},
  };
  for (const auto& [before, after] : cases) {
    const auto changed = ecq::without_quantization_config(before);
    ASSERT_TRUE(changed) << before;
    EXPECT_EQ(*changed, after);
  }
  EXPECT_FALSE(ecq::without_quantization_config("{"));
}

TEST(ModelConfig, IsMarkedAndRestored) {
  const std::string ours = R"("quantization_config": {"format": "ecq"})";
  const std::string fp8 = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{}", "{\n  " + ours + "}"},
      {" { }\n", " {\n  " + ours + " }\n"},
      {"{\n  \"b\": 1\n}\n", "{\n  \"b\": 1,\n  " + ours + "\n}\n"},
      {R"({"b": "}" })", "{\"b\": \"}\",\n  " + ours + " }"},
      {"{\"quantization_config\": " + fp8 + ", \"b\": 1}",
       R"({"quantization_config": {"format": "ecq", "original": )" + fp8 + "}, \"b\": 1}"},
      {R"({"quantization_config":null})", R"({"quantization_config": {"format": "ecq", "original":null}})"},
      {"{" + ours + "}", R"({"quantization_config": {"format": "ecq", "original": {"format": "ecq"}}})"},
  };
  for (const auto& [before, after] : cases) {
    const auto marked = ecq::marked_as_compressed(before);
    ASSERT_TRUE(marked) << before;
    EXPECT_EQ(*marked, after);
    const auto config = parse_quantization_config(*marked);
    ASSERT_TRUE(config && *config) << *marked;
    EXPECT_EQ((*config)->method, "");
    const auto restored = ecq::without_mark(*marked);
    ASSERT_TRUE(restored) << *marked;
    EXPECT_EQ(*restored, before);
  }
  for (const std::string text : {"", "[]", "{", "no JSON", "{} x"}) {
    EXPECT_FALSE(ecq::marked_as_compressed(text)) << text;
    EXPECT_FALSE(ecq::without_mark(text)) << text;
  }
}

TEST(ModelConfig, LosesItsMarkWhenItHasBeenWrittenAnew) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"quantization_config": {"format": "ecq"}})", "{}"},
      {"{\n \"b\": 1,\n \"quantization_config\": {\n  \"format\": \"ecq\"\n }\n}", "{\n \"b\": 1\n}"},
      {R"({"quantization_config":{"original":{"quant_method":"fp8"},"format":"ecq"},"b":NaN})",
       R"({"quantization_config":{"quant_method":"fp8"},"b":NaN})"},
  };
  for (const auto& [marked, plain] : cases) {
    const auto restored = ecq::without_mark(marked);
    ASSERT_TRUE(restored) << marked;
    EXPECT_EQ(*restored, plain);
  }
}

// As in configurations of Mamba: "time_step_limit": [0.0, Infinity].
TEST(ModelConfig, HasNumbersOfPython) {
  const std::string text = R"({"a": [0.0, Infinity, -Infinity, NaN], "b": "\ud800",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 48], "c": Infinity}})";
  const auto config = parse_quantization_config(text);
  ASSERT_TRUE(config && *config);
  EXPECT_EQ((*config)->block, (std::vector<std::uint64_t>{32, 48}));
  const auto marked = ecq::marked_as_compressed(text);
  ASSERT_TRUE(marked);
  EXPECT_NE(marked->find(R"({"format": "ecq", "original": {"quant_method": "fp8")"), std::string::npos);
  const auto restored = ecq::without_mark(*marked);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, text);
  for (const std::string wrong : {"{\"a\": -NaN}", "{\"a\": Inf}", "{\"a\": +Infinity}", "{\"a\": nan}"}) {
    EXPECT_FALSE(parse_quantization_config(wrong)) << wrong;
  }
}

TEST(ModelConfig, LosesNoMarkThatIsNotOurs) {
  for (const std::string text :
       {R"({})", R"({"b": 1})", R"({"quantization_config": {"quant_method": "fp8"}})",
        R"({"quantization_config": {"format": "ecq", "bits": 3}})",
        R"({"quantization_config": {"format": 3, "original": 1}})", R"({"quantization_config": {"original": 1}})",
        R"({"quantization_config": null})", R"({"b": {"quantization_config": {"format": "ecq", "original": 1}}})"}) {
    const auto same = ecq::without_mark(text);
    ASSERT_TRUE(same) << text;
    EXPECT_EQ(*same, text);
  }
}

TEST(ModelConfig, IsCopiedWhateverItIs) {
  const ecq_test::temporary_folder from, to;
  EXPECT_FALSE(ecq::copy_of_config(from.path(), to.path(), ecq::without_quantization_config));
  EXPECT_EQ(to.count(), 0U);
  for (const std::string text : {"", "no JSON", R"({"quantization_config": {}})"}) {
    ecq_test::write_file(from / "config.json", text);
    std::filesystem::remove(to / "config.json");
    auto copied = ecq::copy_of_config(from.path(), to.path(), ecq::without_quantization_config);
    ASSERT_TRUE(copied) << text << copied.error().to_string();
    EXPECT_EQ(to.count(), 1U);  // under another name
    ASSERT_TRUE(copied->commit());
    EXPECT_EQ(ecq_test::read_file(to / "config.json"), text.starts_with('{') ? "{}" : text);
  }
}

}  // namespace
