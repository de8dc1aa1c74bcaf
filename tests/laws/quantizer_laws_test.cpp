// Laws of every quantiser (concepts.hpp), with every number format that it takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "laws/quantizer_laws.hpp"
#include "support/weights.hpp"

namespace ecq_test {
namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::errc;
using ecq::matrix_view;
using ecq::weights_view;

struct quantized {
  std::vector<std::uint8_t> codes;
  std::vector<bf16> scales;
  float zero = 0;
};

ecq::result<quantized> quantize(const quantizer_with_format& quantizer, const weights_view& weights,
                                const cpu& backend = {}) {
  quantized out;
  out.codes.resize(weights.size(), 0xee);
  out.scales.resize(quantizer.layout(weights.rows(), weights.columns()).count());
  ECQ_CHECK(quantizer.quantize(backend, weights, out.codes, out.scales, out.zero));
  return out;
}

weights_view view(const std::vector<float>& weights, std::size_t rows) {
  return matrix_view<const float>(weights.data(), rows, rows == 0 ? 0 : weights.size() / rows);
}

bool same(const ecq::result<quantized>& left, const quantized& right) {
  return left && left->codes == right.codes && left->zero == right.zero &&
         std::equal(left->scales.begin(), left->scales.end(), right.scales.begin(), right.scales.end(),
                    [](bf16 one, bf16 other) { return one.bits == other.bits; });
}

/// Expects every code to have a finite value, whatever the weights, and written codes to be numbers; 0 always has the
/// same code.
void expect_decodable(const quantizer_with_format& quantizer, const quantized& out) {
  for (const bf16 scale : out.scales) {
    ASSERT_GE(quantizer.affine ? std::fabs(static_cast<float>(scale)) : static_cast<float>(scale),
              (std::numeric_limits<float>::min)());
    for (const float value : quantizer.values) {
      if (!std::isnan(value)) {
        ASSERT_TRUE(std::isfinite(value * scale) && std::isfinite(value * scale + out.zero));
      }
    }
  }
  if (!quantizer.affine) {
    ASSERT_EQ(out.zero, 0.0F);
  }
  for (const std::uint8_t code : out.codes) {
    ASSERT_FALSE(std::isnan(quantizer.values[code])) << +code;
    if (quantizer.values[code] == 0.0F) {
      ASSERT_EQ(code, quantizer.encode(0.0F));
    }
  }
}

std::size_t group_of(const ecq::group_layout& layout, std::size_t row, std::size_t column) {
  return row / layout.rows_per_group * layout.groups_across() + column / layout.columns_per_group;
}

/// Expects that no code has a value nearer to its weight than the chosen one has, apart from rounding to FP32. Codes
/// that count from a zero point cover all weights: each is within half a step.
void expect_nearest(const quantizer_with_format& quantizer, const std::vector<float>& weights, std::size_t rows,
                    const quantized& out) {
  const std::size_t columns = weights.size() / rows;
  const ecq::group_layout layout = quantizer.layout(rows, columns);
  const auto zero = static_cast<double>(out.zero);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto weight = static_cast<double>(weights[i]);
    const auto scale = static_cast<double>(static_cast<float>(out.scales[group_of(layout, i / columns, i % columns)]));
    const auto distance = [&](float value) { return std::fabs(static_cast<double>(value) * scale + zero - weight); };
    const double rounding = 0x1p-21 * (std::fabs(weight) + std::fabs(zero));
    const double chosen = distance(quantizer.values[out.codes[i]]);
    for (const float value : quantizer.values) {
      if (!std::isnan(value)) {
        ASSERT_LE(chosen, distance(value) + rounding) << weight << " is nearer to " << value << " * " << scale;
      }
    }
    if (quantizer.affine) {
      ASSERT_LE(chosen, std::fabs(scale) / 2 + rounding) << weight;
    }
  }
}

TEST_P(QuantizerLaws, ResultsDependOnNeitherThreadsNorElementTypeNorStrides) {
  for (const auto& quantizer : GetParam().with_formats) {
    SCOPED_TRACE(quantizer.format);
    const auto weights = row_varying(37, 150);
    const auto expected = quantize(quantizer, view(weights, 37));
    ASSERT_TRUE(expected) << expected.error().to_string();
    expect_decodable(quantizer, *expected);
    EXPECT_TRUE(same(quantize(quantizer, view(weights, 37), cpu{.threads = 3}), *expected));
    const std::vector<bf16> halves(weights.begin(), weights.end());
    EXPECT_TRUE(same(quantize(quantizer, matrix_view<const bf16>(halves.data(), 37, 150)), *expected));
    std::vector<float> transposed(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) transposed[i % 150 * 37 + i / 150] = weights[i];
    EXPECT_TRUE(same(quantize(quantizer, matrix_view<const float>(transposed.data(), 37, 150, 1, 37)), *expected));
    std::vector<float> padded(37 * 155, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < weights.size(); ++i) padded[i / 150 * 155 + i % 150] = weights[i];
    EXPECT_TRUE(same(quantize(quantizer, matrix_view<const float>(padded.data(), 37, 150, 155, 1)), *expected));
  }
}

TEST_P(QuantizerLaws, CodesFollowFromTheStoredScale) {
  for (const auto& quantizer : GetParam().with_formats) {
    SCOPED_TRACE(quantizer.format);
    const auto weights = student_t4(9, 203);
    const auto out = quantize(quantizer, view(weights, 9));
    ASSERT_TRUE(out) << out.error().to_string();
    expect_nearest(quantizer, weights, 9, *out);
    const ecq::group_layout layout = quantizer.layout(9, 203);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float inverse = 1.0F / static_cast<float>(out->scales[group_of(layout, i / 203, i % 203)]);
      const float from_zero = weights[i] - out->zero;
      ASSERT_EQ(quantizer.values[out->codes[i]], quantizer.values[quantizer.encode(from_zero * inverse)]) << i;
    }
  }
}

TEST_P(QuantizerLaws, DegenerateMatrices) {
  const float most = (std::numeric_limits<float>::max)();
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<std::vector<float>> matrices = {{0.5F},
                                                    {-0.5F},
                                                    {-0.0F},
                                                    {0.0F, 0.0F, 0.0F},
                                                    {0.3F, 0.3F, 0.3F, 0.3F},
                                                    {most, -most},
                                                    {most, 1.0F},
                                                    {1e38F, -3e37F, 1e-38F},
                                                    {least, -least, 0.0F},
                                                    {1e-38F, 1e-40F},
                                                    {1.0F, least},
                                                    std::vector<float>(300, -1e-30F)};
  for (const auto& quantizer : GetParam().with_formats) {
    SCOPED_TRACE(quantizer.format);
    for (const auto& weights : matrices) {
      for (const std::size_t rows : {std::size_t{1}, weights.size()}) {
        SCOPED_TRACE(weights[0]);
        const auto out = quantize(quantizer, view(weights, rows));
        if (quantizer.affine && weights[0] == most) {
          ASSERT_FALSE(out) << "the last code's value is not finite";
          EXPECT_EQ(out.error().code(), errc::invalid_argument);
          continue;
        }
        ASSERT_TRUE(out) << out.error().to_string();
        expect_decodable(quantizer, *out);
        expect_nearest(quantizer, weights, rows, *out);
      }
    }
    EXPECT_TRUE(quantize(quantizer, weights_view{}));
    EXPECT_TRUE(quantize(quantizer, matrix_view<const float>(nullptr, 3, 0)));
  }
}

TEST_P(QuantizerLaws, ZerosHaveTheCodeOfZero) {
  for (const auto& quantizer : GetParam().with_formats) {
    SCOPED_TRACE(quantizer.format);
    const auto out = quantize(quantizer, view(std::vector<float>(12, 0.0F), 3));
    ASSERT_TRUE(out) << out.error().to_string();
    EXPECT_EQ(out->codes, std::vector<std::uint8_t>(12, quantizer.encode(0.0F)));
    EXPECT_EQ(out->zero, 0.0F);
    for (const bf16 scale : out->scales) EXPECT_GT(scale, 0.0F);
  }
}

TEST_P(QuantizerLaws, NonFiniteWeightsAreNamed) {
  auto weights = gaussian(8, 100);
  weights[5 * 100 + 2] = -std::numeric_limits<float>::infinity();
  const auto expect_named = [&](const std::string& name) {
    for (const auto& quantizer : GetParam().with_formats) {
      for (const unsigned threads : {1U, 3U}) {
        const auto out = quantize(quantizer, view(weights, 8), cpu{.threads = threads});
        ASSERT_FALSE(out);
        EXPECT_EQ(out.error().code(), errc::non_finite);
        EXPECT_NE(out.error().message().find(name), std::string::npos) << out.error().message();
      }
    }
  };
  expect_named("row 5, column 2 is infinite");
  weights[3 * 100 + 17] = std::numeric_limits<float>::quiet_NaN();
  expect_named("row 3, column 17 is NaN");
}

TEST_P(QuantizerLaws, BuffersOfTheWrongSizeAreRefused) {
  const auto weights = gaussian(8, 100);
  for (const auto& quantizer : GetParam().with_formats) {
    SCOPED_TRACE(quantizer.format);
    const std::size_t groups = quantizer.layout(8, 100).count();
    std::vector<std::uint8_t> codes(801);
    std::vector<bf16> scales(groups + 1);
    float zero = 0;
    const auto with = [&](std::size_t code_count, std::size_t scale_count) {
      return quantizer.quantize(cpu{}, view(weights, 8), std::span(codes).first(code_count),
                                std::span(scales).first(scale_count), zero);
    };
    EXPECT_TRUE(with(800, groups));
    for (const auto& refused : {with(799, groups), with(801, groups), with(800, groups + 1), with(800, groups - 1)}) {
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, QuantizerLaws, testing::ValuesIn(lawful_quantizers<all_quantizers>()),
                         name_of_quantizer);

TEST(Quantizers, ZerosHaveScaleOne) {
  for (const auto& quantizer :
       {with_format<ecq::absmax, ecq::fp8_e4m3>(), with_format<ecq::scaled_quantizer<ecq::row_root<>>, ecq::fp8_e4m3>(),
        with_format<ecq::entquant, ecq::fp8_e4m3>(), with_format<ecq::entrollm, ecq::uint8>()}) {
    const auto out = quantize(quantizer, view(std::vector<float>(12, 0.0F), 3));
    ASSERT_TRUE(out);
    for (const bf16 scale : out->scales) EXPECT_EQ(scale, 1.0F);
  }
}

}  // namespace
}  // namespace ecq_test
