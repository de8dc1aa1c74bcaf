#include "ecq/checkpoint/exact_choice.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::parse_weight_places;

TEST(ExactChoice, ReadsPlaces) {
  const auto places = parse_weight_places(R"( {"a": [[3, 5], [ 0 ,18446744073709551615]], "b.c": [] } )");
  ASSERT_TRUE(places) << places.error().to_string();
  const ecq::weight_places expected = {{"a", {{3, 5}, {0, ~std::uint64_t{0}}}}, {"b.c", {}}};
  EXPECT_EQ(*places, expected);
  EXPECT_TRUE(parse_weight_places("{}")->empty());
}

TEST(ExactChoice, RefusesAnythingElse) {
  for (const std::string text : {"", "[]", "{", "{}x", R"({"a": 3})", R"({"a": [3, 5]})", R"({"a": [[3]]})",
                                 R"({"a": [[3, 5, 7]]})", R"({"a": [[-3, 5]]})", R"({"a": [[3, 5.5]]})",
                                 R"({"a": [], "a": []})", R"({"a": [[]]})", R"({"a": [["3", 5]]})"}) {
    const auto places = parse_weight_places(text);
    ASSERT_FALSE(places) << text;
    EXPECT_EQ(places.error().code(), errc::corrupt) << text;
  }
}

TEST(ExactChoice, NamesTheFileInErrors) {
  const ecq_test::temporary_folder folder;
  EXPECT_FALSE(ecq::read_weight_places(folder / "nothing.json"));
  ecq_test::write_file(folder / "wrong.json", R"({"a": [[3]]})");
  const auto places = ecq::read_weight_places(folder / "wrong.json");
  ASSERT_FALSE(places);
  EXPECT_NE(places.error().message().find("wrong.json"), std::string::npos) << places.error().message();
  ecq_test::write_file(folder / "right.json", R"({"a": [[3, 4]]})");
  ASSERT_TRUE(ecq::read_weight_places(folder / "right.json"));
}

}  // namespace
