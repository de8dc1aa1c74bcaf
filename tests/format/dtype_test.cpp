#include "ecq/format/dtype.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

namespace {

using ecq::dtype;

TEST(Dtype, NamesAreUniqueAndReadBack) {
  std::set<std::string> names;
  for (const dtype type : ecq::all_dtypes) {
    EXPECT_TRUE(names.emplace(to_string(type)).second) << to_string(type);
    EXPECT_EQ(ecq::dtype_from_string(to_string(type)), type);
  }
  EXPECT_EQ(ecq::dtype_from_string("fp7"), std::nullopt);
  EXPECT_EQ(ecq::dtype_from_string(""), std::nullopt);
}

TEST(Dtype, NumbersAreWireFormat) {
  EXPECT_EQ(static_cast<int>(dtype::fp32), 1);
  EXPECT_EQ(static_cast<int>(dtype::fp16), 2);
  EXPECT_EQ(static_cast<int>(dtype::bf16), 3);
  EXPECT_EQ(static_cast<int>(dtype::fp8_e4m3), 4);
  EXPECT_EQ(static_cast<int>(dtype::fp8_e5m2), 5);
  EXPECT_EQ(static_cast<int>(dtype::int8), 6);
  EXPECT_EQ(static_cast<int>(dtype::uint8), 7);
  EXPECT_EQ(static_cast<int>(dtype::uint4), 8);
}

TEST(Dtype, VisitorMeetsTheFormatOfTheType) {
  for (const dtype type : ecq::all_dtypes) {
    EXPECT_EQ(ecq::visit_format(type, []<class Format>() { return ecq::dtype_of<Format>; }), type);
    if (ecq::size_of(type) != 1) continue;
    EXPECT_EQ(ecq::visit_code_format(type, []<class Format>() { return ecq::dtype_of<Format>; }), type);
  }
}

TEST(Dtype, Sizes) {
  EXPECT_EQ(ecq::size_of(dtype::fp32), 4U);
  EXPECT_EQ(ecq::size_of(dtype::bf16), 2U);
  EXPECT_EQ(ecq::size_of(dtype::fp16), 2U);
  EXPECT_EQ(ecq::size_of(dtype::uint4), 1U);
}

static_assert(ecq::dtype_of<float> == dtype::fp32 && ecq::dtype_of<ecq::bf16> == dtype::bf16);
static_assert(ecq::dtype_of<double> == dtype{});

}  // namespace
