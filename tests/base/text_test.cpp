#include "ecq/base/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace {

using ecq::detail::text_of;

TEST(Text, NumbersAreWrittenInFull) {
  EXPECT_EQ(text_of(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(text_of(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text_of(-1, " ", 0U, " ", std::int8_t{-128}), "-1 0 -128");
  EXPECT_EQ(text_of(2.5, " ", -0.125F, " ", 0.0, " ", 99999999.0), "2.500000 -0.125000 0.000000 99999999.000000");
  EXPECT_EQ(text_of(1e300, " ", -3e-39F, " ", 1e9), "1e+300 -3e-39 1e+09");
}

TEST(Text, StringsMayBeEmptyOrHoldAnyBytes) {
  EXPECT_EQ(text_of("", std::string(), "x"), "x");
  EXPECT_EQ(text_of("a", std::string_view("\0b", 2)), std::string("a\0b", 3));
}

}  // namespace
