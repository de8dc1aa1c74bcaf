#include "ecq/format/fp8_e5m2.hpp"

#include <limits>

#include "support/reference_format.hpp"

namespace {

using ecq::fp8_e5m2;

TEST(Fp8E5m2, EveryCodeAndRoundingBoundary) {
  ecq_test::expect_conforms<fp8_e5m2>(ecq_test::reference_float::make(5, 2, true, false));
}

TEST(Fp8E5m2, ValuesOfTheSpecification) {
  EXPECT_EQ(fp8_e5m2::largest, 57344.0F);
  EXPECT_EQ(fp8_e5m2::decode(0x04), 0x1p-14F);
  EXPECT_EQ(fp8_e5m2::decode(0x01), 0x1p-16F);
  EXPECT_EQ(fp8_e5m2::decode(0x7c), std::numeric_limits<float>::infinity());
  EXPECT_EQ(fp8_e5m2::encode(std::numeric_limits<float>::infinity()), 0x7b);
  EXPECT_EQ(fp8_e5m2::encode(std::numeric_limits<float>::quiet_NaN()), 0x7e);
}

TEST(Fp8E5m2, IsAValueType) {
  constexpr fp8_e5m2 rounded(1.1F);
  static_assert(rounded == 1.0F && rounded.bits == 0x3c);
  static_assert(fp8_e5m2::from_bits(0x3d) == 1.25F);
  static_assert(sizeof(fp8_e5m2) == 1);
}

}  // namespace
