#include "ecq/format/fp8_e4m3.hpp"

#include <limits>

#include "support/reference_format.hpp"

namespace {

using ecq::fp8_e4m3;

TEST(Fp8E4m3, EveryCodeAndRoundingBoundary) {
  ecq_test::expect_conforms<fp8_e4m3>(ecq_test::reference_float::make(4, 3, false, false));
}

TEST(Fp8E4m3, ValuesOfTheSpecification) {
  EXPECT_EQ(fp8_e4m3::largest, 448.0F);
  EXPECT_EQ(fp8_e4m3::decode(0x7e), 448.0F);
  EXPECT_EQ(fp8_e4m3::decode(0x08), 0x1p-6F);
  EXPECT_EQ(fp8_e4m3::decode(0x07), 0x1.cp-7F);
  EXPECT_EQ(fp8_e4m3::decode(0x01), 0x1p-9F);
  EXPECT_EQ(fp8_e4m3::encode(-0.0F), 0x80);
  EXPECT_EQ(fp8_e4m3::encode(1e30F), 0x7e);
  EXPECT_EQ(fp8_e4m3::encode(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(fp8_e4m3::encode(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

TEST(Fp8E4m3, IsAValueType) {
  constexpr fp8_e4m3 rounded(1.03F);
  static_assert(rounded == 1.0F && rounded.bits == 0x38);
  static_assert(fp8_e4m3::from_bits(0x39) == 1.125F);
  static_assert(fp8_e4m3() == 0.0F && sizeof(fp8_e4m3) == 1);
}

}  // namespace
