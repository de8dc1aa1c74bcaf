// Policies of a user in the compressor: called, obeyed, and held to their contracts.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "support/user_policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;
using ecq::row_root;
using ecq_test::cubic_error;
using ecq_test::doubled_norm;
using ecq_test::no_error;
using ecq_test::per_two_rows;
using ecq_test::per_weight;
using ecq_test::widened_absmax;

constexpr std::size_t rows = 256, columns = 512;

template <class Quantizer>
ecq::packed_block compressed(const Quantizer& quantizer) {
  const auto weights = ecq_test::row_varying(rows, columns);
  auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, Quantizer>{quantizer}.compress(
      matrix_view(weights.data(), rows, columns));
  EXPECT_TRUE(packed) << packed.error().to_string();
  return packed ? std::move(*packed) : ecq::packed_block{};
}

std::vector<float> decoded(const ecq::packed_block& packed) {
  std::vector<float> weights(rows * columns);
  EXPECT_TRUE(ecq::decompress(cpu{}, packed, matrix_view(weights.data(), rows, columns)));
  return weights;
}

template <class Quantizer>
class UserPolicy : public testing::Test {};

using quantizers = testing::Types<ecq::basic_entquant<row_root<cubic_error>>,
                                  ecq::basic_entquant<row_root<ecq::relative_l1, doubled_norm>>,
                                  ecq::basic_entquant<row_root<>, per_two_rows>, ecq::basic_entquant<widened_absmax>>;
TYPED_TEST_SUITE(UserPolicy, quantizers);

TYPED_TEST(UserPolicy, MeetsTargetBits) {
  for (const double target : {2.5, 3.5}) {
    EXPECT_NEAR(compressed(TypeParam{.target_bits = target}).bits_per_weight(), target, 0.02);
  }
}

TEST(UserPolicies, DistortionIsEvaluated) {
  // Cubes weigh large errors most: at equal rates their sum is smaller than with relative L1, and the sum of L1 is
  // larger.
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto errors = [&](const ecq::packed_block& packed) {
    const auto out = decoded(packed);
    double l1 = 0, cubes = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double error = std::fabs(static_cast<double>(out[i]) - static_cast<double>(weights[i]));
      l1 += error;
      cubes += error * error * error;
    }
    return std::pair(l1, cubes);
  };
  const auto [l1, cubes] = errors(compressed(ecq::entquant{.target_bits = 3.0}));
  const auto [own_l1, own_cubes] = errors(compressed(ecq::basic_entquant<row_root<cubic_error>>{.target_bits = 3.0}));
  EXPECT_LT(own_cubes, cubes);
  EXPECT_GT(own_l1, l1);
}

TEST(UserPolicies, RegularizerIsEvaluated) {
  const auto twice = compressed(ecq::basic_entquant<row_root<ecq::relative_l1, doubled_norm>>{.lambda = 7.25});
  EXPECT_EQ(twice.stream, compressed(ecq::entquant{.lambda = 14.5}).stream);
  EXPECT_NE(twice.stream, compressed(ecq::entquant{.lambda = 7.25}).stream);
}

TEST(UserPolicies, GranularityIsObeyed) {
  EXPECT_EQ(compressed(ecq::basic_entquant<row_root<>, per_two_rows>{.lambda = 14.5}).matrices[0].scales.size(),
            rows / 2);
  const auto each = compressed(ecq::basic_entquant<row_root<>, per_weight>{.lambda = 0.0});
  EXPECT_EQ(each.matrices[0].scales.size(), rows * columns);
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto out = decoded(each);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], weights[i], std::fabs(weights[i]) / 256);
}

TEST(UserPolicies, SearchIsAsked) {
  const auto packed = compressed(ecq::basic_entquant<widened_absmax>{.lambda = 3.0});
  const auto absmax = compressed(ecq::absmax{});
  for (std::size_t row = 0; row < rows; ++row) {
    EXPECT_EQ(packed.matrices[0].scales[row], 4.0F * absmax.matrices[0].scales[row]);
  }
}

// Without a distortion nothing limits the scales: the result is an answer that decodes, or an error.
TEST(UserPolicies, DistortionThatIsZeroEverywhereDoesNoHarm) {
  const auto packed = compressed(ecq::basic_entquant<row_root<no_error>>{.lambda = 14.5});
  for (const float weight : decoded(packed)) EXPECT_TRUE(std::isfinite(weight));
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto searched = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::basic_entquant<row_root<no_error>>>{
      {.target_bits = 3.0}}.compress(matrix_view(weights.data(), rows, columns));
  if (!searched) {
    EXPECT_EQ(searched.error().code(), ecq::errc::unreachable_target);
  }
}

/// Ways for a quantiser to break its contract.
enum class lie { none, code, scale, huge_scale, no_groups, other_shape, no_such_groups };

/// AbsMax, apart from one lie.
template <lie Told>
struct lying_quantizer {
  static constexpr std::string_view name = "lying";

  ecq::group_layout layout(std::size_t height, std::size_t width) const {
    if (Told == lie::no_groups) return ecq::without_groups(height, width);
    if (Told == lie::other_shape) return {height, width + 1, 1, width + 1};
    if (Told == lie::no_such_groups) return {height, width, 1, 0};
    return ecq::per_channel{}.layout(height, width);
  }

  template <class Format>
  ecq::result<void> quantize(const cpu& backend, ecq::weights_view weights, std::span<std::uint8_t> codes,
                             std::span<ecq::bf16> scales) const {
    if (scales.size() == weights.rows()) {
      ECQ_CHECK(ecq::absmax{}.quantize<Format>(backend, weights, codes, scales));
    }
    if (Told == lie::code) codes[columns + 3] = 0x7f;
    if (Told == lie::scale) scales[5] = ecq::bf16::from_bits(0x7fc0);
    if (Told == lie::huge_scale) scales[5] = ecq::bf16(0x1p127F);
    return {};
  }
};

template <lie Told>
std::string answer_to() {
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, lying_quantizer<Told>>{}.compress(
      matrix_view(weights.data(), rows, columns));
  if (packed) return "";
  EXPECT_EQ(packed.error().code(), ecq::errc::invalid_argument);
  return packed.error().message();
}

TEST(UserPolicies, WhatNoDecoderTakesIsNotPacked) {
  EXPECT_EQ(answer_to<lie::none>(), "");
  EXPECT_NE(answer_to<lie::code>().find("1 codes are 127, which is not a number in fp8_e4m3"), std::string::npos);
  EXPECT_NE(answer_to<lie::scale>().find("matrix 0: scale 5 is not finite"), std::string::npos);
  EXPECT_NE(answer_to<lie::huge_scale>().find("beyond the range of FP32"), std::string::npos);
  EXPECT_NE(answer_to<lie::no_groups>().find("layout"), std::string::npos);
  EXPECT_NE(answer_to<lie::other_shape>().find("layout"), std::string::npos);
  EXPECT_NE(answer_to<lie::no_such_groups>().find("layout"), std::string::npos);
}

/// Search that finds the float of these bits for the sixth group, and 1 for all others.
template <std::uint32_t Bits>
struct search_for {
  static constexpr std::string_view name = "search_for";

  double lambda = 0;

  template <class Format>
  ecq::result<void> search(const cpu&, const ecq::weights_view&, const ecq::group_layout&,
                           std::span<float> scales) const {
    std::ranges::fill(scales, 1.0F);
    scales[5] = std::bit_cast<float>(Bits);
    return {};
  }
};

// Nobody would notice a 1 in the place of a NaN, and weights might all become zeros.
TEST(UserPolicies, ScalesHaveToBePositive) {
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto answer = [&](auto search) {
    const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::basic_entquant<decltype(search)>>{
        {.lambda = 0.5}}.compress(matrix_view(weights.data(), rows, columns));
    if (packed) return std::string();
    EXPECT_EQ(packed.error().code(), ecq::errc::invalid_argument);
    return packed.error().message();
  };
  constexpr auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  EXPECT_EQ(answer(search_for<bits(0.5F)>()), "");
  EXPECT_EQ(answer(search_for<bits(-1.0F)>()),
            "matrix 0: scale search 'search_for' returned the invalid scale -1.000000 for row 5, column 0");
  EXPECT_NE(answer(search_for<bits(0.0F)>()).find("the invalid scale 0"), std::string::npos);
  EXPECT_NE(answer(search_for<bits(std::numeric_limits<float>::quiet_NaN())>()).find("row 5"), std::string::npos);
  EXPECT_NE(answer(search_for<bits(std::numeric_limits<float>::infinity())>()).find("row 5"), std::string::npos);
}

/// Search that fails for matrices of 64 columns.
struct search_that_fails {
  static constexpr std::string_view name = "search_that_fails";

  double lambda = 0;

  template <class Format>
  ecq::result<void> search(const cpu& backend, const ecq::weights_view& weights, const ecq::group_layout& groups,
                           std::span<float> scales) const {
    if (weights.columns() == 64) return ecq::error(ecq::errc::unsupported, "refused");
    return widened_absmax{lambda}.search<Format>(backend, weights, groups, scales);
  }
};

TEST(UserPolicies, ErrorsOfASearchNameTheMatrix) {
  const auto weights = ecq_test::row_varying(rows, columns);
  const ecq::named_weights matrices[] = {{"first", matrix_view(weights.data(), rows, columns)},
                                         {"second", matrix_view(weights.data(), 2 * rows, 64)}};
  using quantizer = ecq::basic_entquant<search_that_fails>;
  for (const quantizer& how :
       {quantizer{.lambda = 3.0}, quantizer{.target_bits = 5.0}, quantizer{.target_bits = 5.0, .each_matrix = true}}) {
    const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, quantizer>{how}.compress(cpu{}, matrices);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().to_string(), "unsupported: tensor 'second': refused");
  }
}

/// Layout with one row too many.
struct per_row_and_one {
  constexpr ecq::group_layout layout(std::size_t height, std::size_t width) const noexcept {
    return {height + 1, width, 1, width};
  }
};

TEST(UserPolicies, LayoutsAreThoseOfTheWeights) {
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto packed =
      ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::scaled_quantizer<ecq::absmax_search, per_row_and_one>>{}.compress(
          matrix_view(weights.data(), rows, columns));
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().to_string(),
            "invalid argument: matrix 0: layout of 257 x 512 does not fit weights of 256 x 512");
}

TEST(UserPolicies, IntegersAreWeightsWithScalesAlone) {
  const std::vector<std::uint8_t> integers(rows * columns, 200);
  for (const ecq::dtype type : {ecq::dtype::int8, ecq::dtype::uint8, ecq::dtype::table}) {
    const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::absmax>{}.compress(
        ecq::weights_view(type, integers.data(), rows, columns, static_cast<std::ptrdiff_t>(columns)));
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code(), ecq::errc::invalid_argument);
    EXPECT_NE(packed.error().message().find("matrix 0: "), std::string::npos) << packed.error().message();
  }
}

}  // namespace
