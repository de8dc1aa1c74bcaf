#include "ecq/checkpoint/sensitivities.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "support/files.hpp"
#include "support/models.hpp"

namespace {

using ecq::errc;
using ecq::parse_sensitivities;
using rows = std::vector<double>;

TEST(Sensitivities, AreReadFromJson) {
  const auto read =
      parse_sensitivities(R"( {"a": 0.5, "b.c": 12, "d": 1e-12, "e": 2.5E+3, "f": [1], "g": [2, 0.5,3]} )");
  ASSERT_TRUE(read) << read.error().to_string();
  const ecq::sensitivity_map expected = {{"a", 0.5},  {"b.c", 12}, {"d", 1e-12},
                                         {"e", 2500}, {"f", 1},    {"g", rows{2, 0.5, 3}}};
  EXPECT_EQ(*read, expected);
  EXPECT_TRUE(parse_sensitivities("{}")->empty());
}

TEST(Sensitivities, AreRefusedOutOfRangeAndInOtherShapes) {
  for (const std::string text : {"",
                                 "[]",
                                 "3",
                                 "{",
                                 "{}x",
                                 R"({"a": 0})",
                                 R"({"a": -1})",
                                 R"({"a": 1e13})",
                                 R"({"a": 1e-13})",
                                 R"({"a": 1e999})",
                                 R"({"a": NaN})",
                                 R"({"a": Infinity})",
                                 R"({"a": "1"})",
                                 R"({"a": null})",
                                 R"({"a": []})",
                                 R"({"a": [1, 0]})",
                                 R"({"a": [1, -1]})",
                                 R"({"a": [1, NaN]})",
                                 R"({"a": [[1]]})",
                                 R"({"a": [1)",
                                 R"({"a": {"b": 1}})",
                                 R"({"a": 1, "a": 1})",
                                 R"({"a": 1.})",
                                 R"({"a": .5})"}) {
    const auto read = parse_sensitivities(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), errc::corrupt) << text;
  }
}

TEST(Sensitivities, NameTheFileInErrors) {
  const ecq_test::temporary_folder folder;
  for (const std::string name : {"wrong.json", "wrong.safetensors"}) {
    EXPECT_FALSE(ecq::read_sensitivities(folder / name));
    ecq_test::write_file(folder / name, R"({"a": 0})");
    const auto read = ecq::read_sensitivities(folder / name);
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message().find(name), std::string::npos) << read.error().message();
  }
}

TEST(Sensitivities, HaveTheMeanOfTheirRowsOnTheWhole) {
  EXPECT_EQ(ecq::tensor_sensitivity(0.3).mean(), 0.3);
  EXPECT_DOUBLE_EQ(ecq::tensor_sensitivity(rows{1, 2, 6}).mean(), 3);
  EXPECT_EQ(ecq::tensor_sensitivity(rows(1001, 0.1)).mean(), 0.1);
}

class SensitivityFile : public testing::Test {
 protected:
  ecq::result<ecq::sensitivity_map> read(const std::vector<ecq_test::tensor>& tensors) const {
    ecq_test::write_model(path, tensors);
    return ecq::read_sensitivities(path);
  }

  static std::string doubles(const rows& values) {
    std::string bytes(values.size() * sizeof(double), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path path = folder / "s.safetensors";
};

TEST_F(SensitivityFile, HoldsTensorsOfAnyFloatAndOneNumberOrOneARow) {
  const std::vector<float> some = {0.5F, 2, 96};
  const auto made = read({{"single", "F32", {3}, ecq_test::bytes_of<float>(some)},
                          {"half", "F16", {3, 1}, ecq_test::bytes_of<ecq::fp16>(some)},
                          {"brain", "BF16", {3}, ecq_test::bytes_of<ecq::bf16>(some)},
                          {"double", "F64", {2}, doubles({0.1, 1e12})},
                          {"scalar", "F32", {}, ecq_test::bytes_of<float>({4})},
                          {"one", "F64", {1}, doubles({1e-12})},
                          {"one by one", "F32", {1, 1}, ecq_test::bytes_of<float>({8})}});
  ASSERT_TRUE(made) << made.error().to_string();
  const rows all(some.begin(), some.end());
  const ecq::sensitivity_map expected = {{"single", all}, {"half", all},  {"brain", all},   {"double", rows{0.1, 1e12}},
                                         {"scalar", 4},   {"one", 1e-12}, {"one by one", 8}};
  EXPECT_EQ(*made, expected);
}

TEST_F(SensitivityFile, RefusesOtherShapesTypesAndNumbers) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto expect = [&](const ecq_test::tensor& wrong, errc code, std::string_view text) {
    const auto made = read({{"right", "F32", {2}, ecq_test::bytes_of<float>({1, 2})}, wrong});
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code(), code) << text;
    for (const std::string_view part : {std::string_view("s.safetensors"), std::string_view("tensor 'm'"), text}) {
      EXPECT_NE(made.error().message().find(part), std::string::npos) << made.error().message();
    }
  };
  for (const float bad : {0.0F, -1.0F, 2e12F, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    expect({"m", "F32", {3}, ecq_test::bytes_of<float>({1, 1, bad})}, errc::corrupt, "in row 2");
  }
  expect({"m", "F32", {0}, ""}, errc::corrupt, "no sensitivities");
  expect({"m", "F32", {0, 1}, ""}, errc::corrupt, "no sensitivities");
  expect({"m", "F32", {1, 2}, ecq_test::bytes_of<float>({1, 1})}, errc::corrupt, "has 2 dimensions");
  expect({"m", "F32", {2, 1, 1}, ecq_test::bytes_of<float>({1, 1})}, errc::corrupt, "has 3 dimensions");
  expect({"m", "I64", {1}, std::string(8, '\1')}, errc::unsupported, "type I64");
  expect({"m", "F8_E4M3", {1}, std::string(1, '\70')}, errc::unsupported, "type F8_E4M3");
}

TEST_F(SensitivityFile, IsRefusedWhenDamaged) {
  ASSERT_TRUE(read({{"m", "F32", {3}, ecq_test::bytes_of<float>({1, 2, 3})}}));
  const std::string whole = ecq_test::read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ecq_test::write_file(path, std::string_view(whole).substr(0, size));
    EXPECT_FALSE(ecq::read_sensitivities(path)) << size;
  }
}

}  // namespace
