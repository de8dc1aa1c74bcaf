#include "ecq/format/minifloat.hpp"

#include <cstdint>

#include "support/reference_format.hpp"

namespace {

using ecq::minifloat;
using ecq::overflow;
using ecq_test::reference_float;

// Shapes that no shipped format has, so that the template itself is tested.
TEST(Minifloat, EveryShapeConforms) {
  ecq_test::expect_conforms<minifloat<std::uint8_t, 3, 4, overflow::to_infinity>>(
      reference_float::make(3, 4, true, true));
  ecq_test::expect_conforms<minifloat<std::uint8_t, 3, 4, overflow::saturate_fn>>(
      reference_float::make(3, 4, false, false));
  ecq_test::expect_conforms<minifloat<std::uint8_t, 4, 3, overflow::to_infinity>>(
      reference_float::make(4, 3, true, true));
  ecq_test::expect_conforms<minifloat<std::uint8_t, 5, 2, overflow::saturate_fn>>(
      reference_float::make(5, 2, false, false));
  ecq_test::expect_conforms<minifloat<std::uint8_t, 2, 3, overflow::saturate>>(
      reference_float::make(2, 3, true, false));
  ecq_test::expect_conforms<minifloat<std::uint16_t, 6, 9, overflow::to_infinity>>(
      reference_float::make(6, 9, true, true));
}

TEST(Minifloat, NaNIsToldFromInfinity) {
  using ieee = minifloat<std::uint8_t, 4, 3, overflow::to_infinity>;
  EXPECT_FALSE(ieee::is_nan(0x78));
  EXPECT_FALSE(ieee::is_finite(0x78));
  for (const int code : {0x79, 0x7f, 0xf9, 0xff}) EXPECT_TRUE(ieee::is_nan(static_cast<std::uint8_t>(code)));
  using finite_only = minifloat<std::uint8_t, 4, 3, overflow::saturate_fn>;
  EXPECT_FALSE(finite_only::is_nan(0x7e));
  EXPECT_TRUE(finite_only::is_nan(0x7f));
}

}  // namespace
