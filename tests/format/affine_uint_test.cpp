#include "ecq/format/affine_uint.hpp"

#include "support/reference_format.hpp"

namespace {

TEST(AffineUint, EveryCodeAndRoundingBoundaryOf8Bits) {
  ecq_test::expect_conforms<ecq::uint8>(ecq_test::reference_integer{.smallest = 0, .largest = 255});
}

TEST(AffineUint, EveryCodeAndRoundingBoundaryOf4Bits) {
  ecq_test::expect_conforms<ecq::uint4>(ecq_test::reference_integer{.smallest = 0, .largest = 15});
  for (int code = 16; code < 256; ++code) EXPECT_FALSE(ecq::uint4::is_finite(static_cast<std::uint8_t>(code)));
}

TEST(AffineUint, TiesGoToEven) {
  static_assert(ecq::uint8(0.5F) == 0.0F && ecq::uint8(1.5F) == 2.0F && ecq::uint8(254.5F) == 254.0F);
  static_assert(ecq::uint4(14.5F) == 14.0F && ecq::uint4(15.5F) == 15.0F && ecq::uint4(-1.0F) == 0.0F);
}

}  // namespace
