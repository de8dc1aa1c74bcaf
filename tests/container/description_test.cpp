#include "ecq/container/description.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "container/sample_container.hpp"

namespace {

using ecq::container_description;
using ecq::errc;
using ecq::parse_description;

container_description sample() {
  container_description description{
      "tool \"1\"", "", {}, {{"a", 0x0123456789abcdefU}, {"\xc3\xa4", ~std::uint64_t{0}}}};
  for (const auto& each : ecq_test::sample_blocks()) {
    ecq::block_description block;
    block.name = each.name;
    block.matrices = each.block.matrices;
    for (auto& matrix : block.matrices) {
      block.symbols += matrix.layout.rows * matrix.layout.columns;
      matrix.scales.clear();
    }
    description.blocks.push_back(block);
  }
  return description;
}

/// Returns the sample's JSON with one change.
template <class Change>
std::string changed(Change&& change) {
  auto json = nlohmann::ordered_json::parse(ecq::to_json(sample()));
  change(json);
  return json.dump();
}

errc code_of(std::string_view text) {
  const auto description = parse_description(text);
  if (description) return errc::ok;
  EXPECT_FALSE(description.error().message().empty());
  return description.error().code();
}

TEST(Description, SurvivesTheRoundTrip) {
  const container_description original = sample();
  const std::string text = ecq::to_json(original);
  const auto parsed = parse_description(text);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  EXPECT_EQ(parsed->tool, original.tool);
  ASSERT_EQ(parsed->blocks.size(), original.blocks.size());
  for (std::size_t block = 0; block < original.blocks.size(); ++block) {
    EXPECT_EQ(parsed->blocks[block].name, original.blocks[block].name);
    EXPECT_EQ(parsed->blocks[block].symbols, original.blocks[block].symbols);
    ASSERT_EQ(parsed->blocks[block].matrices.size(), original.blocks[block].matrices.size());
    for (std::size_t index = 0; index < original.blocks[block].matrices.size(); ++index) {
      const auto& expected = original.blocks[block].matrices[index];
      const auto& matrix = parsed->blocks[block].matrices[index];
      EXPECT_EQ(matrix.name, expected.name);
      EXPECT_EQ(matrix.shape, expected.shape);
      EXPECT_EQ(matrix.original, expected.original);
      EXPECT_EQ(matrix.format, expected.format);
      EXPECT_EQ(matrix.layout, expected.layout);
      EXPECT_EQ(matrix.first_symbol, expected.first_symbol);
    }
  }
  ASSERT_EQ(parsed->checksums.size(), 2U);
  EXPECT_EQ(parsed->checksums[1].value, ~std::uint64_t{0});
  EXPECT_EQ(ecq::to_json(*parsed), text);
}

TEST(Description, ColumnsOfAShape) {
  using shape = std::vector<std::uint64_t>;
  constexpr std::uint64_t half = std::uint64_t{1} << 32;
  EXPECT_EQ(ecq::matrix_columns(shape{3}), 1U);
  EXPECT_EQ(ecq::matrix_columns(shape{3, 4, 5}), 20U);
  EXPECT_EQ(ecq::matrix_columns(shape{3, 0}), 0U);
  EXPECT_EQ(ecq::matrix_columns(shape{0, 5}), 5U);
  EXPECT_EQ(ecq::matrix_columns(shape{half, half / 4}), half / 4);
  EXPECT_EQ(ecq::matrix_columns(shape{}), std::nullopt);
  EXPECT_EQ(ecq::matrix_columns(shape{half, half / 2}), std::nullopt);
  EXPECT_EQ(ecq::matrix_columns(shape{half, half}), std::nullopt);
  EXPECT_EQ(ecq::matrix_columns(shape{1, half, half, half}), std::nullopt);
  EXPECT_EQ(ecq::matrix_columns(shape{~std::uint64_t{0}, 0}), std::nullopt);
}

TEST(Description, LiesAreRefused) {
  using json = nlohmann::ordered_json;
  ASSERT_EQ(code_of(changed([](json&) {})), errc::ok);
  const auto of_matrix = [](std::string_view key, const json& value) {
    return code_of(changed([&](json& root) { root["blocks"][0]["matrices"][0][std::string(key)] = value; }));
  };
  EXPECT_EQ(of_matrix("shape", json::array({3, 5})), errc::corrupt);  // runs into the next matrix
  EXPECT_EQ(of_matrix("shape", json::array()), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", json::array({3, -4})), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", json::array({3, 4.5})), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", json::array({1000000000, 1000000000})), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", json::array({~std::uint64_t{0}, ~std::uint64_t{0}})), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", json(std::vector<int>(65, 1))), errc::corrupt);
  EXPECT_EQ(of_matrix("shape", 12), errc::corrupt);
  EXPECT_EQ(of_matrix("original", "fp99"), errc::unsupported);
  EXPECT_EQ(of_matrix("format", "fp99"), errc::unsupported);
  EXPECT_EQ(of_matrix("format", "bf16"), errc::corrupt);  // two bytes per code
  EXPECT_EQ(of_matrix("rows_per_group", 0), errc::corrupt);
  EXPECT_EQ(of_matrix("columns_per_group", 0), errc::corrupt);
  EXPECT_EQ(of_matrix("columns_per_group", "4"), errc::corrupt);
  // Without groups, weights are kept as they were: in one floating-point format for the whole block.
  const auto lossless = [](const char* first, const char* second, const char* original) {
    return code_of(changed([&](json& root) {
      for (json& matrix : root["blocks"][0]["matrices"]) {
        matrix["rows_per_group"] = matrix["columns_per_group"] = 0;
        matrix["original"] = matrix["format"] = first;
      }
      json& last = root["blocks"][0]["matrices"].back();
      last["original"] = original;
      last["format"] = second;
    }));
  };
  EXPECT_EQ(lossless("bf16", "bf16", "bf16"), errc::ok);
  EXPECT_EQ(code_of(changed([](json& root) {
              json& head = root["blocks"][1]["matrices"][0];
              head["rows_per_group"] = head["columns_per_group"] = 0;
              head["original"] = head["format"] = "bf16";
              head["exact"] = 1;
            })),
            errc::corrupt);
  EXPECT_EQ(lossless("fp8_e4m3", "fp8_e4m3", "fp8_e4m3"), errc::ok);
  EXPECT_EQ(lossless("bf16", "fp16", "fp16"), errc::corrupt);
  EXPECT_EQ(lossless("bf16", "bf16", "fp32"), errc::corrupt);
  EXPECT_EQ(lossless("int8", "int8", "int8"), errc::corrupt);
  EXPECT_EQ(of_matrix("first_symbol", 1), errc::corrupt);
  EXPECT_EQ(of_matrix("first_symbol", 24), errc::corrupt);
  EXPECT_EQ(of_matrix("first_symbol", ~std::uint64_t{0}), errc::corrupt);
  EXPECT_EQ(of_matrix("name", "layers.0.conv"), errc::corrupt);
  EXPECT_EQ(of_matrix("name", "head"), errc::corrupt);
  EXPECT_EQ(of_matrix("name", nullptr), errc::corrupt);
  EXPECT_EQ(of_matrix("extra", 1), errc::unsupported);
  EXPECT_EQ(of_matrix("zero", "bf800000"), errc::corrupt);  // codes are FP8
  EXPECT_EQ(of_matrix("exact", 12), errc::ok);
  EXPECT_EQ(of_matrix("exact", 13), errc::corrupt);  // of 3 x 4 weights
  EXPECT_EQ(of_matrix("exact", ~std::uint64_t{0}), errc::corrupt);
  EXPECT_EQ(of_matrix("exact", 0), errc::corrupt);
  EXPECT_EQ(of_matrix("exact", "1"), errc::corrupt);

  const auto of_root = [](auto&& change) { return code_of(changed(change)); };
  EXPECT_EQ(of_root([](json& root) { root["version"] = 2; }), errc::unsupported);
  EXPECT_EQ(of_root([](json& root) { root["version"] = 0; }), errc::unsupported);
  EXPECT_EQ(of_root([](json& root) { root["version"] = "1"; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["blocks"][0]["symbols"] = 23; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["blocks"][0]["name"] = "head"; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["blocks"][0]["matrices"] = json::array(); }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["blocks"] = json::object(); }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["checksums"]["a"] = "123"; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["checksums"]["a"] = "0123456789ABCDEF"; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["checksums"]["a"] = 17; }), errc::corrupt);
  EXPECT_EQ(of_root([](json& root) { root["novelty"] = 17; }), errc::unsupported);
  for (const std::string key : {"version", "tool", "settings", "blocks", "checksums"}) {
    EXPECT_EQ(of_root([&](json& root) { root.erase(key); }), errc::corrupt) << key;
  }
  // In another version, other members do not matter, but the version must come first.
  EXPECT_EQ(code_of(R"({"version":7,"anything":[)"), errc::unsupported);
  EXPECT_EQ(code_of(R"({"tool":"x","version":1})"), errc::corrupt);
  EXPECT_EQ(code_of(""), errc::corrupt);
  EXPECT_EQ(code_of("[1]"), errc::corrupt);
  EXPECT_EQ(code_of(ecq::to_json(sample()) + "x"), errc::corrupt);
}

TEST(Description, ZeroPointsAreFiniteAndOfAffineFormatsAlone) {
  const auto with = [](const char* format, const nlohmann::ordered_json& zero) {
    return changed([&](nlohmann::ordered_json& root) {
      root["blocks"][0]["matrices"][0]["format"] = format;
      root["blocks"][0]["matrices"][0]["zero"] = zero;
    });
  };
  for (const char* format : {"uint8", "uint4"}) {
    const auto parsed = parse_description(with(format, "c0490fdb"));
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->blocks[0].matrices[0].zero, -0x1.921fb6p1F);
    EXPECT_EQ(parsed->blocks[0].matrices[1].zero, 0.0F);
    EXPECT_EQ(ecq::to_json(*parsed), with(format, "c0490fdb"));
  }
  EXPECT_EQ(code_of(with("int8", "c0490fdb")), errc::corrupt);
  EXPECT_EQ(code_of(with("int8", "00000000")), errc::ok);
  for (const char* bad :
       {"7fc00000", "7f800000", "ff800000", "7f800001", "", "C0490FDB", "c0490fd", "c0490fdb0", "80000000"}) {
    EXPECT_EQ(code_of(with("uint8", bad)), errc::corrupt) << bad;
  }
  EXPECT_EQ(code_of(with("uint8", 0)), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", nullptr)), errc::corrupt);
  const auto bytes = [](const char* zero) {
    return changed([&](nlohmann::ordered_json& root) {
      auto& matrix = root["blocks"][1]["matrices"][0];
      matrix["rows_per_group"] = matrix["columns_per_group"] = 0;
      matrix["original"] = matrix["format"] = "uint8";
      matrix["element_type"] = "U8";
      matrix["zero"] = zero;
    });
  };
  EXPECT_EQ(code_of(bytes("00000000")), errc::ok);
  EXPECT_EQ(code_of(bytes("c0490fdb")), errc::corrupt);
}

TEST(Description, BytesNameTheTypeOfTheirTensor) {
  using json = nlohmann::ordered_json;
  const auto with = [](const char* format, const json& shape, const json& element_type, int symbols = 48) {
    return changed([&](json& root) {
      root["blocks"][1]["symbols"] = symbols;
      json& matrix = root["blocks"][1]["matrices"] = json::array({root["blocks"][1]["matrices"][0]});
      matrix[0]["rows_per_group"] = matrix[0]["columns_per_group"] = matrix[0]["first_symbol"] = 0;
      matrix[0]["original"] = matrix[0]["format"] = format;
      matrix[0]["shape"] = shape;
      if (!element_type.is_null()) matrix[0]["element_type"] = element_type;
    });
  };
  const std::string good = with("uint8", json{3, 4}, "I32");
  const auto parsed = parse_description(good);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  const ecq::packed_matrix& matrix = parsed->blocks[1].matrices[0];
  EXPECT_TRUE(matrix.is_bytes());
  EXPECT_EQ(matrix.layout.rows, 48U);
  EXPECT_EQ(matrix.layout.columns, 1U);
  EXPECT_EQ(matrix.weights(), 12U);
  EXPECT_EQ(ecq::to_json(*parsed), good);
  EXPECT_EQ(code_of(with("uint8", json{16, 6}, "F4")), errc::ok);
  EXPECT_EQ(code_of(with("uint8", json::array(), "I64", 8)), errc::ok);  // a scalar
  EXPECT_EQ(code_of(with("uint8", json{0, 7}, "I64")), errc::ok);
  EXPECT_EQ(code_of(with("uint8", json{3, 4}, "I32", 47)), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", json{3, 3}, "F4")), errc::corrupt);  // half a byte
  EXPECT_EQ(code_of(with("uint8", json{3, 4}, nullptr)), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", json{3, 4}, "")), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", json{3, 4}, "I33")), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", json{3, 4}, 32)), errc::corrupt);
  EXPECT_EQ(code_of(with("bf16", json{3, 4}, "BF16")), errc::corrupt);
  EXPECT_EQ(code_of(with("int8", json{3, 4}, "I8")), errc::corrupt);
  EXPECT_EQ(code_of(with("uint8", json{std::uint64_t{1} << 62, 4}, "I64")), errc::corrupt);
}

TEST(Description, TruncatedAnywhereIsRefused) {
  auto described = sample();
  described.blocks[0].matrices[0].format = ecq::dtype::uint8;
  described.blocks[0].matrices[0].zero = -1;
  const std::string text = ecq::to_json(described);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(code_of(std::string_view(text).substr(0, size)), errc::ok) << size;
  }
}

}  // namespace
