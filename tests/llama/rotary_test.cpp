// Rotary embeddings of models for long contexts, and members of config.json that are refused.

#include "../../examples/llama/rotary.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace {

using nlohmann::json;

json llama3() {
  return {{"rope_theta", 500000.0},
          {"rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 8.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}}}};
}

std::string error_of(const json& config) {
  const auto parsed = llama::parse_rotary_embedding(config);
  return parsed ? "" : parsed.error().to_string();
}

// Computed in Python by the rule that was published with Llama 3.1.
TEST(LlamaRotary, FrequenciesAreThoseOfLlama3) {
  const auto rotary = llama::parse_rotary_embedding(llama3());
  ASSERT_TRUE(rotary) << rotary.error().to_string();
  const std::pair<std::size_t, double> expected[] = {{0, 1.0},
                                                     {10, 0.12868737343265052},
                                                     {28, 0.0032114459947525913},
                                                     {30, 0.0013718935677611381},
                                                     {32, 0.0005248461609929547},
                                                     {35, 9.556212353964683e-05},
                                                     {40, 3.428102195952591e-05},
                                                     {63, 3.068925988914511e-07}};
  for (const auto& [pair, frequency] : expected) {
    EXPECT_NEAR(rotary->frequency(pair, 128), frequency, 1e-12 * frequency) << pair;
  }
}

TEST(LlamaRotary, AreDividedOrStay) {
  for (const char* const type : {"type", "rope_type"}) {
    const auto rotary = llama::parse_rotary_embedding({{"rope_scaling", {{type, "linear"}, {"factor", 4}}}});
    ASSERT_TRUE(rotary) << rotary.error().to_string();
    EXPECT_EQ(rotary->frequency(0, 64), 0.25);
    EXPECT_EQ(rotary->frequency(16, 64), 0.25 * 0.01);
  }
  for (const json& plain : {json::object(), json{{"rope_scaling", nullptr}},
                            json{{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}}}) {
    const auto rotary = llama::parse_rotary_embedding(plain);
    ASSERT_TRUE(rotary) << rotary.error().to_string();
    EXPECT_EQ(rotary->frequency(16, 64), 0.01);
  }
}

// transformers 5 looks at the older members first.
TEST(LlamaRotary, OlderMembersCountBeforeNewerOnes) {
  json config = {{"rope_theta", 100.0}, {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}}};
  const auto frequency = [&](std::size_t pair) { return llama::parse_rotary_embedding(config)->frequency(pair, 4); };
  EXPECT_EQ(frequency(1), 0.1 / 2);
  config["rope_parameters"]["rope_theta"] = 10000.0;
  EXPECT_EQ(frequency(1), 0.01 / 2);
  config["rope_scaling"] = json::object();
  EXPECT_EQ(frequency(1), 0.01 / 2);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(frequency(1), 0.1 / 4);
  config = {{"rope_parameters", {{"rope_theta", 100.0}}}};
  EXPECT_EQ(frequency(1), 0.1);
}

TEST(LlamaRotary, TheOriginalContextMayLieBeside) {
  json config = llama3();
  const auto kept = [&] { return llama::parse_rotary_embedding(config)->kept_wavelength; };
  EXPECT_EQ(kept(), 8192 / 4.0);
  config["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(kept(), 1024 / 4.0);
  config.erase("original_max_position_embeddings");
  config["rope_scaling"].erase("original_max_position_embeddings");
  config["max_position_embeddings"] = 512;
  EXPECT_EQ(kept(), 512 / 4.0);
}

TEST(LlamaRotary, RefusesOtherTypesAndOddNumbers) {
  EXPECT_EQ(error_of({{"rope_scaling", {{"type", "yarn"}}}}), "unsupported: rotary embeddings of type 'yarn'");
  for (const char* const type : {"dynamic", "longrope"}) {
    EXPECT_EQ(error_of({{"rope_parameters", {{"rope_type", type}, {"factor", 2.0}}}}),
              std::string("unsupported: rotary embeddings of type '") + type + "'");
  }
  for (const json& config : {json{{"partial_rotary_factor", 0.5}},
                             json{{"rope_parameters", {{"rope_type", "linear"}, {"partial_rotary_factor", 0.5}}}}}) {
    EXPECT_EQ(error_of(config), "unsupported: partial_rotary_factor 0.5");
  }
  EXPECT_EQ(error_of({{"partial_rotary_factor", 1.0}}), "");
  EXPECT_EQ(error_of({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
            "unsupported: rotary embeddings for 'full_attention' alone");
  EXPECT_EQ(error_of({{"rope_scaling", "linear"}}), "unsupported: rotary embeddings of type ''");
  for (const std::string name : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    json config = llama3();
    config["rope_scaling"].erase(name);
    EXPECT_EQ(error_of(config), name == "original_max_position_embeddings" ? "" : "not found: " + name + " is missing");
    for (const json& odd : {json(0), json(-1.0), json("8"), json(true)}) {
      config["rope_scaling"][name] = odd;
      EXPECT_EQ(error_of(config), "corrupt: " + name + ": not a finite number above 0") << odd;
    }
  }
  json equal = llama3();
  equal["rope_scaling"]["low_freq_factor"] = 4.0;
  EXPECT_EQ(error_of(equal), "corrupt: low_freq_factor: not below high_freq_factor");
}

}  // namespace
