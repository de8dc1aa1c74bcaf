// Exponents of whole checkpoints, plain and compressed.

#include "ecq/checkpoint/inspect_exponents.hpp"

#include "ecq/checkpoint/matrix_part.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::exponent_row;
using ecq::inspect_exponents;
using ecq_test::bytes_of;

struct tensor {
  std::string name, dtype, shape, bytes;
};

std::string file_of(const std::vector<tensor>& tensors) {
  std::string header, data;
  for (const tensor& each : tensors) {
    header += (header.empty() ? "{\"" : ",\"") + each.name + R"(":{"dtype":")" + each.dtype + R"(","shape":[)" +
              each.shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + each.bytes.size()) + "]}";
    data += each.bytes;
  }
  return ecq_test::safetensors_text(header + "}", data);
}

std::string some_model() {
  const auto weights = ecq_test::gaussian(64, 128, 4, 0.02F);
  return file_of({{"embed.weight", "BF16", "64,128", bytes_of<ecq::bf16>(weights)},
                  {"layers.0.a", "BF16", "64,128", bytes_of<ecq::bf16>(weights)},
                  {"layers.1.a", "F32", "2,32,128", bytes_of<float>(weights)},
                  {"layers.0.b", "F8_E4M3", "64,128", bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(64, 128, 5, 8.0F))},
                  {"layers.1.norm", "F32", "128", bytes_of<float>(ecq_test::gaussian(1, 128))},
                  {"layers.1.empty", "F32", "0,5", ""}});
}

const exponent_row& find(const std::vector<exponent_row>& rows, std::string_view name) {
  for (const exponent_row& row : rows) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no row " << name;
  return rows.front();
}

void expect_same(const ecq::exponent_statistics& left, const ecq::exponent_statistics& right) {
  EXPECT_EQ(left.weights, right.weights);
  EXPECT_DOUBLE_EQ(left.entropy, right.entropy);
  EXPECT_DOUBLE_EQ(left.lossless_bits, right.lossless_bits);
  EXPECT_DOUBLE_EQ(left.scaled_entropy, right.scaled_entropy);
  EXPECT_DOUBLE_EQ(left.rotated_entropy, right.rotated_entropy);
  EXPECT_DOUBLE_EQ(left.stable_alpha, right.stable_alpha);
  EXPECT_DOUBLE_EQ(left.fitted.alpha, right.fitted.alpha);
}

TEST(InspectExponents, OfGaussianWeights) {
  const ecq_test::temporary_folder folder;
  ecq_test::write_file(folder / "model.safetensors", some_model());
  const auto report = inspect_exponents(cpu{}, folder / "model.safetensors");
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_FALSE(report->container);
  ASSERT_EQ(report->tensors.size(), 4U);  // without the vector and the empty tensor
  for (const exponent_row& row : report->tensors) {
    EXPECT_EQ(row.exponents.weights, 64U * 128U) << row.name;
    EXPECT_NEAR(row.exponents.entropy, 2.53, 0.05) << row.name;
    EXPECT_NEAR(row.exponents.scaled_entropy, 2.54, 0.05) << row.name;
    EXPECT_NEAR(row.exponents.rotated_entropy, 2.54, 0.05) << row.name;
    EXPECT_GT(row.exponents.stable_alpha, 1.9) << row.name;
    EXPECT_GT(row.exponents.fitted.entropy(), 2.53) << row.name;
  }
  const auto& narrow = find(report->tensors, "layers.0.b");
  EXPECT_EQ(narrow.format, "fp8_e4m3");
  EXPECT_DOUBLE_EQ(narrow.exponents.lossless_bits, narrow.exponents.entropy + 4);
  const auto& wide = find(report->tensors, "layers.1.a");
  EXPECT_DOUBLE_EQ(wide.exponents.lossless_bits, wide.exponents.entropy + 24);
  EXPECT_EQ(wide.block, "layers.1");

  ASSERT_EQ(report->blocks.size(), 3U);
  const auto& mixed = find(report->blocks, "layers.0");
  EXPECT_EQ(mixed.format, "mixed");
  EXPECT_EQ(mixed.exponents.weights, 2U * 64U * 128U);
  EXPECT_DOUBLE_EQ(mixed.exponents.entropy,
                   (narrow.exponents.entropy + find(report->tensors, "layers.0.a").exponents.entropy) / 2);
  EXPECT_EQ(report->total.exponents.weights, 4U * 64U * 128U);
}

TEST(InspectExponents, OfAContainerAreThoseOfItsWeights) {
  const ecq_test::temporary_folder folder;
  const auto model = folder / "model.safetensors", packed = folder / "packed.safetensors";
  ecq_test::write_file(model, some_model());
  ASSERT_TRUE(ecq::compress_checkpoint(cpu{}, model, packed, {.method = ecq::lossless_weights{}}));
  const auto plain = inspect_exponents(cpu{.threads = 2}, model);
  const auto lossless = inspect_exponents(cpu{.threads = 2}, packed);
  ASSERT_TRUE(plain);
  ASSERT_TRUE(lossless) << lossless.error().to_string();
  EXPECT_TRUE(lossless->container);
  ASSERT_EQ(lossless->tensors.size(), 4U);
  for (const exponent_row& row : lossless->tensors) {
    expect_same(row.exponents, find(plain->tensors, row.name).exponents);
  }

  std::string damaged = ecq_test::read_file(packed);
  damaged[damaged.size() - 3000] = static_cast<char>(damaged[damaged.size() - 3000] ^ 4);
  ecq_test::write_file(packed, damaged);
  EXPECT_FALSE(inspect_exponents(cpu{}, packed));
}

TEST(InspectExponents, OfNoWeightsAndOfNoNumbers) {
  const ecq_test::temporary_folder folder;
  const auto model = folder / "model.safetensors";
  ecq_test::write_file(model, file_of({{"a", "I64", "1,1", "12345678"}}));
  const auto none = inspect_exponents(cpu{}, model);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->tensors.empty());
  EXPECT_TRUE(none->blocks.empty());
  EXPECT_EQ(none->total.exponents.weights, 0U);
  EXPECT_EQ(none->total.exponents.entropy, 0.0);

  const std::vector<float> odd(12, std::numeric_limits<float>::quiet_NaN());
  ecq_test::write_file(model, file_of({{"a", "F32", "3,4", bytes_of<float>(odd)}}));
  const auto report = inspect_exponents(cpu{}, model);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->total.exponents.non_finite, 12U);
  EXPECT_EQ(report->total.exponents.entropy, 0.0);
  EXPECT_TRUE(std::isnan(report->total.exponents.stable_alpha));
}

TEST(InspectExponents, StopsWhenTold) {
  const ecq_test::temporary_folder folder;
  ecq_test::write_file(folder / "model.safetensors", some_model());
  std::uint64_t last = 0, calls = 0;
  const auto stopped = inspect_exponents(cpu{}, folder / "model.safetensors", [&](const ecq::progress& step) {
    EXPECT_GE(step.done, last);
    EXPECT_LT(step.done, step.total);
    last = step.done;
    return ++calls < 3;
  });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), errc::invalid_argument);
  EXPECT_EQ(calls, 3U);
}

TEST(ForEachPart, CoversEveryElementOnce) {
  for (const std::size_t rows : {0U, 1U, 5U, 7U}) {
    for (const std::size_t columns : {0U, 1U, 3U, 10U, 23U}) {
      for (const std::size_t most : {1U, 3U, 10U, 25U, 1000U}) {
        std::size_t next = 0;
        const auto use = [&](const ecq::detail::matrix_part& part) -> ecq::result<void> {
          EXPECT_EQ(part.first, next);
          EXPECT_LE(part.rows * part.columns, most);
          EXPECT_TRUE(part.columns == columns || part.rows == 1);
          next += part.rows * part.columns;
          return {};
        };
        EXPECT_TRUE(ecq::detail::for_each_part(rows, columns, most, use));
        EXPECT_EQ(next, rows * columns);
      }
    }
  }
}

}  // namespace
