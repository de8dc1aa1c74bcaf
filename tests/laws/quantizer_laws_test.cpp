// What every quantiser keeps to (concepts.hpp), with every number format it takes.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::errc;
using ecq::matrix_view;
using ecq::weights_view;

using symmetric_formats =
    testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8, ecq_test::fp8_e3m4, ecq_test::two_for_one>;

struct quantized {
  std::vector<std::uint8_t> codes;
  std::vector<bf16> scales;
};

/// A quantiser with a lambda where it takes one.
template <class Quantizer>
Quantizer some() {
  Quantizer quantizer{};
  if constexpr (requires { quantizer.lambda; }) quantizer.lambda = 7.0;
  if constexpr (requires { quantizer.scale_search.lambda; }) quantizer.scale_search.lambda = 7.0;
  return quantizer;
}

template <class Quantizer, class Format>
ecq::result<quantized> quantize(weights_view weights, const cpu& backend = {}) {
  const auto quantizer = some<Quantizer>();
  quantized out;
  out.codes.resize(weights.size(), 0xee);
  out.scales.resize(quantizer.layout(weights.rows(), weights.columns()).count());
  ECQ_CHECK(quantizer.template quantize<Format>(backend, weights, out.codes, out.scales));
  return out;
}

weights_view view(const std::vector<float>& weights, std::size_t rows) {
  return matrix_view<const float>(weights.data(), rows, rows == 0 ? 0 : weights.size() / rows);
}

bool same(const quantized& left, const quantized& right) {
  if (left.codes != right.codes || left.scales.size() != right.scales.size()) return false;
  for (std::size_t i = 0; i < left.scales.size(); ++i) {
    if (left.scales[i].bits != right.scales[i].bits) return false;
  }
  return true;
}

/// Codes are canonical and scales usable: whatever the weights, decoding gives finite numbers.
template <class Format>
void expect_decodable(const quantized& out) {
  for (const bf16 scale : out.scales) {
    ASSERT_GE(scale, (std::numeric_limits<float>::min)());
    for (int code = 0; code < 256; ++code) {
      if (Format::is_finite(static_cast<std::uint8_t>(code))) {
        ASSERT_TRUE(std::isfinite(Format::decode(static_cast<std::uint8_t>(code)) * scale));
      }
    }
  }
  for (const std::uint8_t code : out.codes) {
    ASSERT_TRUE(Format::is_finite(code));
    if (Format::decode(code) == 0.0F) {
      ASSERT_EQ(code, Format::encode(0.0F));
    }
  }
}

template <class Quantizer>
class QuantizerLaws : public testing::Test {};

TYPED_TEST_SUITE(QuantizerLaws, ecq_test::all_quantizers);

TYPED_TEST(QuantizerLaws, ResultsDependOnNeitherThreadsNorElementTypeNorStrides) {
  ecq_test::for_each_policy(symmetric_formats{}, []<class Format>() {
    static_assert(ecq::quantizer<TypeParam, Format>);
    const auto weights = ecq_test::row_varying(37, 150);
    const auto expected = quantize<TypeParam, Format>(view(weights, 37));
    ASSERT_TRUE(expected);
    expect_decodable<Format>(*expected);
    EXPECT_TRUE(same(*quantize<TypeParam, Format>(view(weights, 37), cpu{.threads = 3}), *expected));
    const std::vector<bf16> halves(weights.begin(), weights.end());
    EXPECT_TRUE(same(*quantize<TypeParam, Format>(matrix_view<const bf16>(halves.data(), 37, 150)), *expected));
    std::vector<float> transposed(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) transposed[i % 150 * 37 + i / 150] = weights[i];
    EXPECT_TRUE(
        same(*quantize<TypeParam, Format>(matrix_view<const float>(transposed.data(), 37, 150, 1, 37)), *expected));
  });
}

TYPED_TEST(QuantizerLaws, CodesFollowFromTheStoredScale) {
  ecq_test::for_each_policy(symmetric_formats{}, []<class Format>() {
    const auto weights = ecq_test::student_t4(9, 203);
    const auto out = quantize<TypeParam, Format>(view(weights, 9));
    ASSERT_TRUE(out);
    const ecq::group_layout layout = some<TypeParam>().layout(9, 203);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t group =
          i / 203 / layout.rows_per_group * layout.groups_across() + i % 203 / layout.columns_per_group;
      const float inverse = 1.0F / static_cast<float>(out->scales[group]);
      const float expected = Format::decode(Format::encode(weights[i] * inverse));
      ASSERT_EQ(Format::decode(out->codes[i]), expected) << i;
    }
  });
}

TYPED_TEST(QuantizerLaws, DegenerateMatrices) {
  const float most = (std::numeric_limits<float>::max)();
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<std::vector<float>> matrices = {{0.5F},
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
  ecq_test::for_each_policy(symmetric_formats{}, [&]<class Format>() {
    for (const auto& weights : matrices) {
      for (const std::size_t rows : {std::size_t{1}, weights.size()}) {
        const auto out = quantize<TypeParam, Format>(view(weights, rows));
        ASSERT_TRUE(out) << out.error().to_string();
        expect_decodable<Format>(*out);
      }
    }
    EXPECT_TRUE((quantize<TypeParam, Format>(weights_view{})));
    EXPECT_TRUE((quantize<TypeParam, Format>(matrix_view<const float>(nullptr, 3, 0))));
  });
}

TYPED_TEST(QuantizerLaws, ZerosHaveCodeZero) {
  const auto out = quantize<TypeParam, ecq::fp8_e4m3>(view(std::vector<float>(12, 0.0F), 3));
  ASSERT_TRUE(out);
  for (const std::uint8_t code : out->codes) EXPECT_EQ(code, 0);
  for (const bf16 scale : out->scales) EXPECT_GT(scale, 0.0F);
}

TEST(Quantizers, ZerosHaveScaleOne) {
  const auto expect_one = []<class Quantizer>() {
    const auto out = quantize<Quantizer, ecq::fp8_e4m3>(view(std::vector<float>(12, 0.0F), 3));
    ASSERT_TRUE(out);
    for (const bf16 scale : out->scales) EXPECT_EQ(scale, 1.0F);
  };
  ecq_test::for_each_policy(testing::Types<ecq::absmax, ecq::scaled_quantizer<ecq::row_root<>>, ecq::entquant>{},
                            expect_one);
}

TYPED_TEST(QuantizerLaws, NonFiniteWeightsAreNamed) {
  auto weights = ecq_test::gaussian(8, 100);
  weights[3 * 100 + 17] = std::numeric_limits<float>::quiet_NaN();
  weights[5 * 100 + 2] = std::numeric_limits<float>::infinity();
  for (const unsigned threads : {1U, 3U}) {
    const auto out = quantize<TypeParam, ecq::fp8_e4m3>(view(weights, 8), cpu{.threads = threads});
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code(), errc::non_finite);
    EXPECT_NE(out.error().message().find("row 3, column 17"), std::string::npos) << out.error().message();
  }
}

TYPED_TEST(QuantizerLaws, BuffersOfTheWrongSizeAreRefused) {
  const auto weights = ecq_test::gaussian(8, 100);
  const auto quantizer = some<TypeParam>();
  const std::size_t groups = quantizer.layout(8, 100).count();
  std::vector<std::uint8_t> codes(801);
  std::vector<bf16> scales(groups + 1);
  const auto with = [&](std::size_t code_count, std::size_t scale_count) {
    return quantizer.template quantize<ecq::int8>(cpu{}, view(weights, 8), std::span(codes).first(code_count),
                                                  std::span(scales).first(scale_count));
  };
  EXPECT_TRUE(with(800, groups));
  for (const auto& refused : {with(799, groups), with(801, groups), with(800, groups + 1), with(800, groups - 1)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
}

}  // namespace
