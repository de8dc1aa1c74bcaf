#include "ecq/checkpoint/sensitivities.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::parse_sensitivities;

TEST(Sensitivities, AreReadFromJson) {
  const auto read = parse_sensitivities(R"( {"a": 0.5, "b.c": 12, "d": 1e-12, "e": 2.5E+3} )");
  ASSERT_TRUE(read) << read.error().to_string();
  const ecq::sensitivity_map expected = {{"a", 0.5}, {"b.c", 12}, {"d", 1e-12}, {"e", 2500}};
  EXPECT_EQ(*read, expected);
  EXPECT_TRUE(parse_sensitivities("{}")->empty());
}

TEST(Sensitivities, AreRefusedOutOfRangeAndInOtherShapes) {
  for (const std::string text :
       {"", "[]", "3", "{", "{}x", R"({"a": 0})", R"({"a": -1})", R"({"a": 1e13})", R"({"a": 1e-13})",
        R"({"a": 1e999})", R"({"a": NaN})", R"({"a": Infinity})", R"({"a": "1"})", R"({"a": null})", R"({"a": [1]})",
        R"({"a": 1, "a": 1})", R"({"a": 1.})", R"({"a": .5})"}) {
    const auto read = parse_sensitivities(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), errc::corrupt) << text;
  }
}

TEST(Sensitivities, NameTheFileInErrors) {
  const ecq_test::temporary_folder folder;
  EXPECT_FALSE(ecq::read_sensitivities(folder / "nothing.json"));
  ecq_test::write_file(folder / "wrong.json", R"({"a": 0})");
  const auto read = ecq::read_sensitivities(folder / "wrong.json");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("wrong.json"), std::string::npos) << read.error().message();
}

}  // namespace
