// Laws of every number format (format/number_format.hpp).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"
#include "support/policies.hpp"

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class Format>
class NumberFormatLaws : public testing::Test {
 public:
  static_assert(ecq::number_format<Format>);
  using code_type = typename Format::code_type;

  /// Returns every finite code; for formats wider than 16 bits, a sample spread over all of them.
  static std::vector<code_type> finite_codes() {
    constexpr std::uint64_t step = sizeof(code_type) <= 2 ? 1 : 65521;
    std::vector<code_type> codes;
    for (std::uint64_t code = 0; code <= std::uint64_t{(std::numeric_limits<code_type>::max)()}; code += step) {
      if (Format::is_finite(static_cast<code_type>(code))) codes.push_back(static_cast<code_type>(code));
    }
    return codes;
  }

  /// Returns the values of finite_codes() in ascending order, each once.
  static std::vector<float> values() {
    std::vector<float> decoded;
    for (const code_type code : finite_codes()) decoded.push_back(Format::decode(code));
    std::sort(decoded.begin(), decoded.end());
    decoded.erase(std::unique(decoded.begin(), decoded.end()), decoded.end());
    return decoded;
  }

  static float round(float value) { return Format::decode(Format::encode(value)); }
};

TYPED_TEST_SUITE(NumberFormatLaws, ecq_test::all_formats, ecq_test::policy_names);

TYPED_TEST(NumberFormatLaws, EncodeUndoesDecode) {
  for (const auto code : TestFixture::finite_codes()) EXPECT_EQ(TypeParam::encode(TypeParam::decode(code)), code);
}

TYPED_TEST(NumberFormatLaws, FiniteCodesHaveFiniteValues) {
  for (const auto code : TestFixture::finite_codes()) {
    EXPECT_TRUE(std::isfinite(TypeParam::decode(code))) << +code;
    EXPECT_LE(static_cast<double>(code), std::exp2(TypeParam::bits_per_code) - 1);
  }
}

TYPED_TEST(NumberFormatLaws, ZeroIsCodeZero) {
  EXPECT_EQ(TypeParam::encode(0.0F), 0U);
  EXPECT_EQ(TypeParam::decode(0), 0.0F);
  EXPECT_EQ(TestFixture::round(-0.0F), 0.0F);
}

TYPED_TEST(NumberFormatLaws, EncodingIsMonotone) {
  float before = -infinity;
  for (float magnitude = 1e38F; magnitude > 1e-38F; magnitude *= 0.97F) {
    const float rounded = TestFixture::round(-magnitude);
    EXPECT_LE(before, rounded) << -magnitude;
    before = rounded;
  }
  for (float magnitude = 1e-38F; magnitude < 1e38F; magnitude *= 1.03F) {
    const float rounded = TestFixture::round(magnitude);
    EXPECT_LE(before, rounded) << magnitude;
    before = rounded;
  }
}

TYPED_TEST(NumberFormatLaws, NearestValueWins) {
  const std::vector<float> values = TestFixture::values();
  for (std::size_t index = 0; index + 1 < values.size(); ++index) {
    const float lower = values[index];
    const float higher = values[index + 1];
    const float middle = lower + (higher - lower) / 2;
    if (sizeof(typename TypeParam::code_type) > 2) {
      EXPECT_EQ(TestFixture::round(middle), middle) << "every float is one of its values";
      continue;
    }
    EXPECT_EQ(TestFixture::round(std::nextafter(middle, -infinity)), lower);
    EXPECT_EQ(TestFixture::round(std::nextafter(middle, infinity)), higher);
    const float tied = TestFixture::round(middle);
    EXPECT_TRUE(tied == lower || tied == higher) << middle;
    EXPECT_EQ(TypeParam::encode(middle) % 2, 0U) << "ties go to even codes";
  }
}

TYPED_TEST(NumberFormatLaws, LargestIsWhereItSaturates) {
  const std::vector<float> values = TestFixture::values();
  if (sizeof(typename TypeParam::code_type) <= 2) {
    EXPECT_EQ(values.back(), TypeParam::largest);
  }
  EXPECT_EQ(TestFixture::round(TypeParam::largest), TypeParam::largest);
  const float beyond = TestFixture::round(infinity);
  EXPECT_TRUE(beyond == TypeParam::largest || beyond == infinity);
  EXPECT_EQ(TestFixture::round((std::numeric_limits<float>::max)()),
            sizeof(typename TypeParam::code_type) > 2 ? TypeParam::largest : beyond);
  const float below = TestFixture::round(-infinity);
  EXPECT_TRUE(below == values.front() || below == -infinity);
}

TYPED_TEST(NumberFormatLaws, NaNNeverLooksLikeANumberWhereNaNExists) {
  const auto code = TypeParam::encode(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(TypeParam::decode(code)) || code == 0);
  EXPECT_EQ(TypeParam::is_finite(code), code == 0);
}

TYPED_TEST(NumberFormatLaws, IsAValueType) {
  static_assert(sizeof(TypeParam) == sizeof(typename TypeParam::code_type));
  for (const float value : {0.0F, 1.0F, 2.6F, 13.0F, 1e30F}) {
    EXPECT_EQ(TypeParam(value).bits, TypeParam::encode(value));
    EXPECT_EQ(static_cast<float>(TypeParam(value)), TestFixture::round(value));
  }
}

TYPED_TEST(NumberFormatLaws, IsRegistered) {
  constexpr ecq::dtype type = ecq::dtype_of<TypeParam>;
  static_assert(type != ecq::dtype{});
  EXPECT_EQ(to_string(type), TypeParam::name);
  EXPECT_EQ(ecq::size_of(type), sizeof(TypeParam));
}

TEST(NumberFormats, NamesAreUnique) {
  std::set<std::string_view> names;
  ecq_test::for_each_policy(ecq_test::all_formats{},
                            [&]<class Format>() { EXPECT_TRUE(names.insert(Format::name).second) << Format::name; });
  EXPECT_EQ(names.size(), ecq::all_dtypes.size()) << "a format is missing from the list";
}

}  // namespace
