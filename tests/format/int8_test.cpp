#include "ecq/format/int8.hpp"

#include "support/reference_format.hpp"

namespace {

using ecq::int8;

TEST(Int8, EveryCodeAndRoundingBoundary) {
  ecq_test::expect_conforms<int8>(ecq_test::reference_integer{.smallest = -128, .largest = 127});
}

TEST(Int8, CodesAreTwosComplement) {
  static_assert(int8(-1.0F).bits == 0xff && int8(-200.0F).bits == 0x80 && int8(200.0F).bits == 0x7f);
  static_assert(int8(2.5F) == 2.0F && int8(3.5F) == 4.0F && int8(-2.5F) == -2.0F && int8(-3.5F) == -4.0F);
  EXPECT_EQ(int8::largest, 127.0F);
}

}  // namespace
