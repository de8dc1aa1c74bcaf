#include "ecq/io/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using ecq::errc;
using ecq::json_reader;

bool accepted(std::string_view text) {
  json_reader reader(text);
  return reader.skip() && reader.finish();
}

std::string read_string(std::string_view text) {
  json_reader reader(text);
  auto value = reader.string();
  return value ? *value : "error: " + value.error().message();
}

TEST(Json, ReadsWhatAnotherLibraryReads) {
  const std::string_view seeds[] = {
      R"({"a":[1,2,{"b":null}],"c":"\u00e4\n\ud83d\ude00","d":-1.5e+3,"e":true,"f":false})",
      R"([ "x" , {} , [ ] , 0 , 0.5 , 1E9 , "\\\"\/\b\f\n\r\t" ])", "\"\xc3\xa4 \xf0\x9f\x98\x80\"", "[[[[[[]]]]]]"};
  std::mt19937_64 random(1);
  const std::string_view alphabet = "{}[]:,\"\\u0123eE+-.truefalsn d8\x80\xc3\xed\xf4 \n";
  std::size_t good = 0, bad = 0;
  for (int round = 0; round < 40000; ++round) {
    std::string text(seeds[static_cast<std::size_t>(round) % std::size(seeds)]);
    for (std::uint64_t edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0: text[at] = letter; break;
        case 1: text.insert(at, 1, letter); break;
        default: text.erase(at, 1);
      }
    }
    const bool expected = nlohmann::json::accept(text);
    // The other library keeps the last of several members with the same key; here they are an error.
    if (accepted(text) != expected) {
      json_reader reader(text);
      const auto outcome = reader.skip();
      EXPECT_TRUE(expected && !outcome && outcome.error().message().find("twice") != std::string::npos) << text;
    }
    (expected ? good : bad) += 1;
    if (expected && !text.empty() && text[0] == '"') {
      EXPECT_EQ(read_string(text), nlohmann::json::parse(text).get<std::string>());
    }
  }
  EXPECT_GT(good, 5000U);
  EXPECT_GT(bad, 5000U);
}

TEST(Json, StringsSurviveTheRoundTrip) {
  std::string all;
  for (int code = 0; code < 128; ++code) all += static_cast<char>(code);
  all += "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
  ASSERT_TRUE(ecq::is_utf8(all));
  std::string text;
  ecq::append_json_string(text, all);
  EXPECT_EQ(read_string(text), all);
  EXPECT_EQ(nlohmann::json::parse(text).get<std::string>(), all);
}

TEST(Json, OfPythonMayHaveWhatTheStandardRefuses) {
  for (const std::string_view text : {"NaN", "Infinity", "[0, -Infinity]", R"("\ud800")", R"("\udc00\ud800\u0041")"}) {
    json_reader reader(text, ecq::json_dialect::python);
    EXPECT_TRUE(reader.skip() && reader.finish()) << text;
    EXPECT_FALSE(accepted(text)) << text;
  }
  json_reader lone(R"("\ud800\u0041\udc00\ud83d\ude00")", ecq::json_dialect::python);
  EXPECT_EQ(*lone.string(),
            "\xef\xbf\xbd"
            "A"
            "\xef\xbf\xbd\xf0\x9f\x98\x80");
  for (const std::string_view text : {"-NaN", "Infinit", "inf", R"("\ud800\u00")", "[NaN", "NaN1"}) {
    json_reader reader(text, ecq::json_dialect::python);
    EXPECT_FALSE(reader.skip() && reader.finish()) << text;
  }
}

TEST(Json, KnowsUtf8) {
  for (const std::string_view bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                     "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(ecq::is_utf8(bad));
  }
  EXPECT_TRUE(ecq::is_utf8(""));
  EXPECT_TRUE(ecq::is_utf8("\xe2\x82\xac"));
}

TEST(Json, IntegersAreExactOrRefused) {
  const auto read = [](std::string_view text) { return json_reader(text).integer(); };
  EXPECT_EQ(*read(" 0"), 0U);
  EXPECT_EQ(*read("18446744073709551615"), 18446744073709551615U);
  for (const std::string_view bad :
       {"18446744073709551616", "99999999999999999999999", "-1", "1.0", "1e3", "01", "", "x", "\"1\"", "true"}) {
    const auto value = read(bad);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().code(), errc::corrupt);
  }
}

TEST(Json, ErrorsNameTheByte) {
  json_reader reader(R"({"a": [1, 2, oops]})");
  const auto outcome = reader.skip();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message(), "JSON at byte 13: expected a value");
}

TEST(Json, KeysMustDifferHoweverSpelt) {
  EXPECT_FALSE(accepted(R"({"a":1,"b":2,"a":3})"));
  EXPECT_FALSE(accepted(R"({"a":1,"\u0061":3})"));
  EXPECT_TRUE(accepted(R"([{"a":1},{"a":3}])"));
}

TEST(Json, DeepNestingIsRefusedAndNotFollowed) {
  const std::string deep(10'000'000, '[');
  EXPECT_FALSE(accepted(deep));
  std::string objects;
  for (int level = 0; level < 1000; ++level) objects += "{\"a\":";
  EXPECT_FALSE(accepted(objects));
}

}  // namespace
