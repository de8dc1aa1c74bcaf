// Bits divided among the rows of tensors, by files of sensitivities.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/io/checkpoint.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::any_method;
using ecq::cpu;
using ecq::entquant;
using ecq::errc;
using ecq::sensitivity_map;
using ecq::tcq;
using ecq_test::bytes_of;
using rows = std::vector<double>;

/// Compression of a model with a wide matrix, whose rows tcq scales, and a narrow one.
class RowSensitivities : public testing::Test {
 protected:
  void SetUp() override { ecq_test::write_model(original, model); }

  ecq::result<ecq::compress_report> compress(const any_method& method, const sensitivity_map& sensitivities) const {
    return ecq::compress_checkpoint(cpu{.threads = 2}, original, packed,
                                    {.method = method, .sensitivities = sensitivities});
  }

  std::string bytes(const any_method& method, const sensitivity_map& sensitivities) const {
    const auto report = compress(method, sensitivities);
    EXPECT_TRUE(report) << report.error().to_string();
    return ecq_test::read_file(packed);
  }

  /// Returns the signal-to-noise ratio of each row of a tensor, in decibels.
  rows ratios(const std::string& name) const {
    rows found;
    EXPECT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    const auto before = ecq::checkpoint::open(original), after = ecq::checkpoint::open(restored);
    EXPECT_TRUE(before && after);
    const auto expected = ecq::as_weights(*before->find(name), before->bytes(*before->find(name)));
    const auto made = ecq::as_weights(*after->find(name), after->bytes(*after->find(name)));
    for (std::size_t row = 0; row < expected->rows(); ++row) {
      found.push_back(ecq::measure_error(cpu{}, expected->row_range(row, 1), made->row_range(row, 1))->sqnr_db());
    }
    return found;
  }

  static double mean_of(const rows& numbers, std::size_t first) {
    double sum = 0;
    for (std::size_t row = first; row < numbers.size(); row += 2) sum += numbers[row];
    return sum / static_cast<double>(numbers.size() / 2);
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path original = folder / "model.safetensors", packed = folder / "packed.safetensors",
                        restored = folder / "restored.safetensors";
  std::vector<ecq_test::tensor> model = {
      {"layers.0.wide", "F32", {120, 260}, bytes_of<float>(ecq_test::row_varying(120, 260, 1))},
      {"layers.1.narrow", "BF16", {160, 96}, bytes_of<ecq::bf16>(ecq_test::gaussian(160, 96, 2))}};
  std::vector<any_method> methods = {entquant{.target_bits = 3.5},
                                     {ecq::dtype::int8, entquant{.lambda = 8.0}},
                                     tcq{.target_bits = 3.5},
                                     tcq{.lambda = 8.0}};
  /// Returns sensitivities that differ by a factor of 256 from row to row.
  static rows uneven(std::size_t count) {
    rows made(count, 0.5);
    for (std::size_t row = 0; row < count; row += 2) made[row] = 128;
    return made;
  }
};

TEST_F(RowSensitivities, ThatAreAllEqualAreThatOfTheirTensor) {
  for (const any_method& method : methods) {
    const std::string of_tensors = bytes(method, {{"layers.0.wide", 0.3}, {"layers.1.narrow", 2.7}});
    EXPECT_EQ(bytes(method, {{"layers.0.wide", rows(120, 0.3)}, {"layers.1.narrow", rows(160, 2.7)}}), of_tensors);
    EXPECT_NE(bytes(method, {{"layers.0.wide", uneven(120)}, {"layers.1.narrow", uneven(160)}}), of_tensors);
  }
}

TEST_F(RowSensitivities, AreTheSameFromEitherFile) {
  const rows wide = uneven(120);
  std::string json = R"({"layers.1.narrow": 2.5, "layers.0.wide": [)";
  for (const double value : wide)
    json += (value == wide.front() && json.back() == '[' ? "" : ",") + std::to_string(value);
  ecq_test::write_file(folder / "s.json", json + "]}");
  std::vector<float> singles;
  for (const double value : wide) singles.push_back(static_cast<float>(value));
  ecq_test::write_model(folder / "s.safetensors", {{"layers.0.wide", "F32", {120, 1}, bytes_of<float>(singles)},
                                                   {"layers.1.narrow", "BF16", {}, bytes_of<ecq::bf16>({2.5F})}});
  const auto one = ecq::read_sensitivities(folder / "s.json"),
             other = ecq::read_sensitivities(folder / "s.safetensors");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(*one, *other);
  EXPECT_EQ(one->at("layers.0.wide").values, wide);
  for (const any_method& method : methods) EXPECT_EQ(bytes(method, *one), bytes(method, *other));
}

TEST_F(RowSensitivities, MoveErrorToRowsThatMatterLessAtTheSameBits) {
  for (const any_method& method : {methods[0], methods[2]}) {
    ASSERT_TRUE(compress(method, {}));
    const rows even = ratios("layers.0.wide");
    const auto report = compress(method, {{"layers.0.wide", uneven(120)}, {"layers.1.narrow", 64.25}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_NEAR(report->bits_per_weight, 3.5, 0.02);
    // 256 times the sensitivity means a 64th of the lambda and an eighth of the step.
    const rows divided = ratios("layers.0.wide");
    const auto gain = [](const rows& of) { return mean_of(of, 0) - mean_of(of, 1); };
    EXPECT_NEAR(gain(divided) - gain(even), 18, 3);
    EXPECT_GT(mean_of(divided, 0), mean_of(even, 0) + 3);
    EXPECT_LT(mean_of(divided, 1), mean_of(even, 1) - 3);
  }
}

// A matrix of short rows has a single step in tcq, and no step per row.
TEST_F(RowSensitivities, CountWithTheirMeanWhereRowsCannotDiffer) {
  sensitivity_map of_rows = {{"layers.0.wide", 3.0}, {"layers.1.narrow", uneven(160)}};
  const sensitivity_map of_tensors = {{"layers.0.wide", 3.0}, {"layers.1.narrow", 64.25}};
  for (const any_method& method : {methods[2], methods[3]}) {
    EXPECT_EQ(bytes(method, of_rows), bytes(method, of_tensors));
  }
  EXPECT_NE(bytes(methods[0], of_rows), bytes(methods[0], of_tensors));
}

TEST_F(RowSensitivities, OnlyCountByTheirRatios) {
  sensitivity_map given = {{"layers.0.wide", uneven(120)}, {"layers.1.narrow", uneven(160)}};
  for (const any_method& method : methods) {
    const std::string expected = bytes(method, given);
    sensitivity_map scaled = given;
    for (auto& each : scaled) {
      for (double& value : each.second.values) value *= 0x1p-20;
    }
    EXPECT_EQ(bytes(method, scaled), expected);
  }
}

TEST_F(RowSensitivities, SpanTheirWholeRange) {
  rows extreme(120, ecq::least_sensitivity);
  for (std::size_t row = 0; row < 120; row += 3) extreme[row] = ecq::greatest_sensitivity;
  for (const any_method& method : methods) {
    const auto report = compress(method, {{"layers.0.wide", extreme}, {"layers.1.narrow", 1}});
    if (report) {
      EXPECT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
    } else {
      EXPECT_EQ(report.error().code(), errc::unreachable_target) << report.error().to_string();
    }
  }
}

TEST_F(RowSensitivities, AreRefusedWhereTheyDoNotFit) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto expect = [&](const sensitivity_map& given, errc code, const std::string& text) {
    for (const any_method& method : methods) {
      const auto report = compress(method, given);
      ASSERT_FALSE(report) << text;
      EXPECT_EQ(report.error().code(), code) << text;
      EXPECT_NE(report.error().message().find(text), std::string::npos) << report.error().message();
    }
  };
  const sensitivity_map right = {{"layers.0.wide", uneven(120)}, {"layers.1.narrow", 1}};
  for (const std::size_t count : {0U, 2U, 119U, 121U, 260U}) {
    sensitivity_map wrong = right;
    wrong["layers.0.wide"] = rows(count, 1);
    expect(wrong, errc::invalid_argument,
           "tensor 'layers.0.wide': " + std::to_string(count) + " row sensitivities for 120 rows");
  }
  for (const double bad : {0.0, -1.0, 1e13, 1e-13, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    sensitivity_map wrong = right;
    wrong["layers.0.wide"].values[7] = bad;
    expect(wrong, errc::invalid_argument, "tensor 'layers.0.wide': sensitivity");
  }
  expect({{"layers.0.wide", 1}}, errc::not_found, "tensor 'layers.1.narrow' has no sensitivity");
  sensitivity_map more = right;
  more["layers.2.wide"] = 1;
  expect(more, errc::not_found, "tensor 'layers.2.wide' has a sensitivity");
}

}  // namespace
