#include "ecq/quantize/rounding.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"

namespace {

/// Returns values halfway between neighbouring codes, those of the codes, and the floats next to all of them, with both
/// signs.
template <class Format>
std::vector<float> critical_values() {
  std::vector<float> all = {0.0F, 1e-45F, 1e-38F, (std::numeric_limits<float>::max)(),
                            std::numeric_limits<float>::infinity()};
  std::vector<float> positive;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    if (Format::is_finite(byte) && Format::decode(byte) >= 0.0F) positive.push_back(Format::decode(byte));
  }
  std::sort(positive.begin(), positive.end());
  for (std::size_t i = 0; i + 1 < positive.size(); ++i) {
    all.push_back(positive[i]);
    all.push_back((positive[i] + positive[i + 1]) / 2);
  }
  all.push_back(positive.back());
  all.push_back(positive.back() + (positive.back() - positive[positive.size() - 2]) / 2);
  for (std::size_t i = all.size(); i-- > 0;) {
    all.push_back(std::nextafter(all[i], 0.0F));
    all.push_back(std::nextafter(all[i], std::numeric_limits<float>::infinity()));
  }
  for (std::size_t i = all.size(); i-- > 0;) all.push_back(-all[i]);
  return all;
}

template <class Format>
void expect_definition(std::vector<float> values) {
  values.resize((values.size() + 15) / 16 * 16, 0.0F);
  std::vector<std::uint8_t> codes(values.size());
  ecq::detail::encode_weights<Format>(values, 1.0F, codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t expected = Format::encode(values[i]);
    ASSERT_EQ(codes[i], Format::decode(expected) == 0.0F ? 0 : expected) << values[i];
    ASSERT_EQ(ecq::detail::rounding<Format>::encode(values[i]), codes[i]) << values[i];
    const float magnitude = std::abs(values[i]);
    if (magnitude <= Format::largest) {
      const auto nearest =
          ecq::detail::rounding<Format>::nearest(ecq::detail::every_lane<ecq::detail::float_lanes>(magnitude));
      const float first = std::bit_cast<std::array<float, ecq::detail::lanes_at_once>>(nearest)[0];
      ASSERT_EQ(first, Format::decode(Format::encode(magnitude))) << magnitude;
      ASSERT_EQ(ecq::detail::rounding<Format>::nearest(magnitude), first) << magnitude;  // as on a device
    }
  }
}

template <class Format>
class Rounding : public testing::Test {};
using formats = testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8, ecq::uint8, ecq::uint4>;
TYPED_TEST_SUITE(Rounding, formats);

TYPED_TEST(Rounding, AgreesWithTheFormatAtEveryBoundary) { expect_definition<TypeParam>(critical_values<TypeParam>()); }

TYPED_TEST(Rounding, AgreesWithTheFormatOnAnyBits) {
  std::mt19937 engine(5);
  std::vector<float> values;
  while (values.size() < 200000) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (!std::isnan(value)) values.push_back(value);
  }
  expect_definition<TypeParam>(values);
}

/// User-defined format: FP8 that the fast paths do not know.
struct plain_fp8 {
  using code_type = std::uint8_t;
  static constexpr std::string_view name = "plain_fp8";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = ecq::fp8_e4m3::largest;
  static code_type encode(float value) { return ecq::fp8_e4m3::encode(value); }
  static float decode(code_type code) { return ecq::fp8_e4m3::decode(code); }
  static bool is_finite(code_type code) { return ecq::fp8_e4m3::is_finite(code); }
};

TEST(RoundingOfAnyFormat, IsThatOfEncodeAndDecode) {
  static_assert(ecq::code_format<plain_fp8>);
  expect_definition<plain_fp8>(critical_values<plain_fp8>());
}

TEST(EncodeWeights, ShorterThanTheVector) {
  const std::vector<float> weights(16, 3.0F);
  std::vector<std::uint8_t> codes(7, 0xaa);
  ecq::detail::encode_weights<ecq::int8>(weights, 1.5F, std::span(codes).first(5));
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{2, 2, 2, 2, 2, 0xaa, 0xaa}));
}

}  // namespace
