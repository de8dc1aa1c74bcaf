#include "ecq/format/number_format.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "ecq/format/bf16.hpp"
#include "ecq/format/fp8_e4m3.hpp"

namespace {

/// User-defined format that holds signs only.
struct sign_format {
  using code_type = std::uint8_t;
  static constexpr std::string_view name = "sign";
  static constexpr int bits_per_code = 1;
  static constexpr float largest = 1.0F;
  static constexpr code_type encode(float value) noexcept { return value < 0 ? 1 : 0; }
  static constexpr float decode(code_type code) noexcept { return code != 0 ? -1.0F : 1.0F; }
  static constexpr bool is_finite(code_type code) noexcept { return code < 2; }
};

struct signed_code : sign_format {
  using code_type = std::int8_t;
};

struct without_decode {
  using code_type = std::uint8_t;
  static constexpr std::string_view name = "broken";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = 1.0F;
  static constexpr code_type encode(float) noexcept { return 0; }
  static constexpr bool is_finite(code_type) noexcept { return true; }
};

TEST(NumberFormat, ConceptTellsFormatsFromTheRest) {
  EXPECT_TRUE(ecq::number_format<sign_format>);
  EXPECT_TRUE(ecq::code_format<sign_format>);
  EXPECT_FALSE(ecq::number_format<signed_code>);
  EXPECT_FALSE(ecq::number_format<without_decode>);
  EXPECT_FALSE(ecq::number_format<float>);
  EXPECT_TRUE(ecq::code_format<ecq::fp8_e4m3>);
  EXPECT_FALSE(ecq::code_format<ecq::bf16>);
}

}  // namespace
