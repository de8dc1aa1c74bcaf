// EntroLLM's mixed quantisation: the sign rule, grids at the edges of FP32, weights within half a step.

#include "ecq/quantize/entrollm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "support/weights.hpp"

namespace {

using ecq::affine_grid;
using ecq::bf16;
using ecq::cpu;
using ecq::entrollm;
using ecq::errc;
using ecq::matrix_view;
using ecq::weights_view;

constexpr float most = (std::numeric_limits<float>::max)();
constexpr float least_normal = (std::numeric_limits<float>::min)();
constexpr float least = std::numeric_limits<float>::denorm_min();

weights_view row_of(const std::vector<float>& weights) {
  return matrix_view<const float>(weights.data(), 1, weights.size());
}

struct quantized {
  std::vector<std::uint8_t> codes;
  affine_grid grid;
};

template <class Format>
ecq::result<quantized> quantize(const weights_view& weights, const cpu& backend = {}) {
  quantized out;
  out.codes.resize(weights.size(), 0xee);
  std::vector<bf16> scales(entrollm{}.layout(weights.rows(), weights.columns()).count());
  ECQ_CHECK(entrollm{}.template quantize<Format>(backend, weights, out.codes, scales, out.grid.zero));
  if (!scales.empty()) out.grid.scale = scales[0];
  return out;
}

/// Decodes with one rounding per step, as decoders do.
float value_of(std::uint8_t code, const affine_grid& grid) {
  const float product = static_cast<float>(code) * grid.scale;
  return product + grid.zero;
}

template <class Format>
void expect_within_half_a_step(const std::vector<float>& weights) {
  const auto out = quantize<Format>(row_of(weights));
  ASSERT_TRUE(out) << out.error().to_string();
  bool negative = false, positive = false;
  for (const float weight : weights) {
    negative = negative || weight < 0;
    positive = positive || weight > 0;
  }
  const float scale = out->grid.scale;
  EXPECT_EQ(out->grid.zero < 0, negative && positive);
  EXPECT_EQ(scale < 0, negative && !positive);
  EXPECT_GE(std::fabs(scale), least_normal);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_TRUE(Format::is_finite(out->codes[i]));
    const double error = static_cast<double>(value_of(out->codes[i], out->grid)) - static_cast<double>(weights[i]);
    ASSERT_LE(std::fabs(error), std::fabs(static_cast<double>(scale)) * 0.50002) << weights[i];
  }
}

template <class Format>
class EntrollmFormats : public testing::Test {};
using formats = testing::Types<ecq::uint8, ecq::uint4>;
TYPED_TEST_SUITE(EntrollmFormats, formats);

TYPED_TEST(EntrollmFormats, EveryWeightIsWithinHalfAStep) {
  auto weights = ecq_test::student_t4(1, 4000);
  expect_within_half_a_step<TypeParam>(weights);
  for (float& weight : weights) weight = std::fabs(weight);
  expect_within_half_a_step<TypeParam>(weights);
  for (float& weight : weights) weight = -weight;
  expect_within_half_a_step<TypeParam>(weights);
  const std::vector<std::vector<float>> edges = {{0.3F},
                                                 {-0.3F},
                                                 {0.3F, 0.3F},
                                                 {-7e-3F, -7e-3F},
                                                 {0, 5, 1},
                                                 {-5, 0, -1},
                                                 {-0.0F, 2},
                                                 {-1e-30F, 1e-30F},  // whose product underflows
                                                 {-1e-38F, 2e-38F, 1e-39F},
                                                 {-least, least},
                                                 {least},
                                                 {-least},
                                                 {-1e-45F, 1e38F},
                                                 {-1e38F, 1e-45F, -3e37F},
                                                 {-1.6e38F, 1.6e38F, 0},
                                                 {3.3e38F, 1},
                                                 {-3.3e38F, -1},
                                                 {-1e-6F, 1000}};
  for (const auto& some : edges) expect_within_half_a_step<TypeParam>(some);
}

TYPED_TEST(EntrollmFormats, ScalesAreTheLeastThatHoldAll) {
  const auto with_both = quantize<TypeParam>(row_of({-0.25F, 0.5F, 0.1F}));
  const auto positive = quantize<TypeParam>(row_of({0.25F, 0.5F}));
  const auto negative = quantize<TypeParam>(row_of({-0.25F, -0.5F, 0}));
  ASSERT_TRUE(with_both && positive && negative);
  EXPECT_EQ(with_both->grid.zero, -0.25F);
  EXPECT_EQ(with_both->codes[0], 0);
  EXPECT_EQ(positive->grid.scale, -static_cast<float>(negative->grid.scale));
  EXPECT_EQ(positive->codes[1], negative->codes[1]);
  EXPECT_EQ(negative->codes[2], 0);
  const auto expect_tight = [](float scale, float reach) {
    EXPECT_GE(scale * TypeParam::largest, reach);
    EXPECT_LT(scale * TypeParam::largest, reach * (1 + 0x1p-7F));
  };
  expect_tight(with_both->grid.scale, 0.75F);
  expect_tight(positive->grid.scale, 0.5F);
}

TYPED_TEST(EntrollmFormats, ZerosHaveScaleOneAndCodeZero) {
  for (const std::vector<float>& zeros : {std::vector<float>(20, 0.0F), std::vector<float>(3, -0.0F)}) {
    const auto out = quantize<TypeParam>(row_of(zeros));
    ASSERT_TRUE(out);
    EXPECT_EQ(out->grid.scale, 1.0F);
    EXPECT_EQ(out->grid.zero, 0.0F);
    for (const std::uint8_t code : out->codes) EXPECT_EQ(code, 0);
  }
}

TYPED_TEST(EntrollmFormats, WhatReachesTooFarIsRefused) {
  for (const std::vector<float>& weights :
       std::vector<std::vector<float>>{{-most, most}, {most}, {-most}, {-1, most}}) {
    const auto out = quantize<TypeParam>(row_of(weights));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code(), errc::invalid_argument);
  }
}

TYPED_TEST(EntrollmFormats, BytesDependOnNeitherThreadsNorElementTypeNorStrides) {
  const auto weights = ecq_test::row_varying(37, 150);
  const auto expected = quantize<TypeParam>(matrix_view<const float>(weights.data(), 37, 150));
  ASSERT_TRUE(expected);
  const auto expect_same = [&](const ecq::result<quantized>& other) {
    ASSERT_TRUE(other);
    EXPECT_EQ(other->codes, expected->codes);
    EXPECT_EQ(other->grid.scale.bits, expected->grid.scale.bits);
    EXPECT_EQ(other->grid.zero, expected->grid.zero);
  };
  expect_same(quantize<TypeParam>(matrix_view<const float>(weights.data(), 37, 150), cpu{.threads = 3}));
  const std::vector<bf16> halves(weights.begin(), weights.end());
  expect_same(quantize<TypeParam>(matrix_view<const bf16>(halves.data(), 37, 150)));
  std::vector<float> transposed(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) transposed[i % 150 * 37 + i / 150] = weights[i];
  expect_same(quantize<TypeParam>(matrix_view<const float>(transposed.data(), 37, 150, 1, 37)));
}

TYPED_TEST(EntrollmFormats, BadWeightsAndBuffersAreNamed) {
  auto weights = ecq_test::gaussian(8, 100);
  const matrix_view<const float> view(weights.data(), 8, 100);
  std::vector<std::uint8_t> codes(801);
  std::vector<bf16> scales(2);
  float zero = 0;
  const auto with = [&](std::size_t code_count, std::size_t scale_count) {
    return entrollm{}.template quantize<TypeParam>(cpu{}, view, std::span(codes).first(code_count),
                                                   std::span(scales).first(scale_count), zero);
  };
  EXPECT_TRUE(with(800, 1));
  for (const auto& refused : {with(799, 1), with(801, 1), with(800, 0), with(800, 2)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
  EXPECT_TRUE(quantize<TypeParam>(weights_view{}));
  EXPECT_TRUE(quantize<TypeParam>(matrix_view<const float>(nullptr, 3, 0)));
  weights[3 * 100 + 17] = std::numeric_limits<float>::quiet_NaN();
  weights[5 * 100 + 2] = std::numeric_limits<float>::infinity();
  const auto refused = with(800, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::non_finite);
  EXPECT_NE(refused.error().message().find("row 3, column 17"), std::string::npos);
}

TYPED_TEST(EntrollmFormats, ComposesWithAnyCoderAndDecodes) {
  auto weights = ecq_test::gaussian(40, 300);
  auto positive = ecq_test::gaussian(10, 300, 2);
  for (float& weight : positive) weight = std::fabs(weight) + 0.25F;
  const std::vector<ecq::named_weights> block = {{"a", matrix_view<const float>(weights.data(), 40, 300)},
                                                 {"b", matrix_view<const float>(positive.data(), 10, 300)}};
  const auto check = [&](const ecq::result<ecq::packed_block>& packed) {
    ASSERT_TRUE(packed) << packed.error().to_string();
    const auto decoder = ecq::block_decoder::open(*packed);
    ASSERT_TRUE(decoder);
    for (std::size_t index = 0; index < block.size(); ++index) {
      const auto& matrix = packed->matrices[index];
      const std::size_t rows = matrix.layout.rows;
      EXPECT_EQ(matrix.zero < 0, index == 0);
      std::vector<std::uint8_t> codes(rows * 300);
      std::vector<float> out(rows * 300);
      ASSERT_TRUE(decoder->decode_codes(cpu{}, index, 0, rows, codes));
      ASSERT_TRUE(decoder->decode(cpu{.threads = 2}, index, 0, matrix_view<float>(out.data(), rows, 300)));
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], value_of(codes[i], {matrix.scales[0], matrix.zero}));
      }
    }
  };
  check(ecq::compressor<TypeParam, ecq::huffman, entrollm>{}.compress(cpu{}, block));
  check(ecq::compressor<TypeParam, ecq::rans, entrollm>{}.compress(cpu{}, block));
  check(ecq::compressor<TypeParam, ecq::tans, entrollm>{}.compress(cpu{}, block));
}

TEST(Entrollm, HostileGridsAreRefusedWhenOpened) {
  const auto weights = ecq_test::gaussian(4, 64);
  auto packed =
      ecq::compressor<ecq::uint8, ecq::huffman, entrollm>{}.compress(matrix_view<const float>(weights.data(), 4, 64));
  ASSERT_TRUE(packed);
  const auto code_with = [&](float scale, float zero, ecq::dtype format = ecq::dtype::uint8) {
    auto changed = *packed;
    changed.matrices[0].scales[0] = bf16(scale);
    changed.matrices[0].zero = zero;
    changed.matrices[0].format = format;
    const auto opened = ecq::block_decoder::open(changed);
    return opened ? errc::ok : opened.error().code();
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code_with(1, 5), errc::ok);
  EXPECT_EQ(code_with(-1, -5, ecq::dtype::uint4), errc::ok);
  EXPECT_EQ(code_with(1, std::numeric_limits<float>::quiet_NaN()), errc::corrupt);
  EXPECT_EQ(code_with(1, infinity), errc::corrupt);
  EXPECT_EQ(code_with(1, -infinity), errc::corrupt);
  EXPECT_EQ(code_with(infinity, 0), errc::corrupt);
  EXPECT_EQ(code_with(2e36F, -1e38F), errc::corrupt);  // the product alone is too large
  EXPECT_EQ(code_with(1e36F, 2e38F), errc::corrupt);
  EXPECT_EQ(code_with(-1e36F, -2e38F), errc::corrupt);
  EXPECT_EQ(code_with(1, 1, ecq::dtype::int8), errc::corrupt);
  EXPECT_EQ(code_with(1, 0, ecq::dtype::int8), errc::ok);
}

}  // namespace
