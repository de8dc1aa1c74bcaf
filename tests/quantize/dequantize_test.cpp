#include "ecq/quantize/dequantize.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ecq/format/code_values.hpp"
#include "ecq/format/dtype.hpp"
#include "support/codes.hpp"
#include "support/instruction_sets.hpp"

namespace {

using ecq::detail::weight_rule;
using ecq::detail::weight_table;

template <class Element>
auto bits_of(Element weight) {
  return std::bit_cast<std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>>(weight);
}

template <class Element>
class WeightTable : public testing::Test {
 protected:
  /// Looks up all codes but `left_out`, and compares with the rule bit by bit.
  static void expect_the_rule(const weight_rule& rule, const std::vector<std::uint8_t>& left_out) {
    std::vector<std::byte> codes;
    ecq_test::code_source random(3);
    for (unsigned i = 0; i < 3000; ++i) {
      const auto code = static_cast<std::uint8_t>(i < 256 ? i : random.next() % 256);
      bool used = true;
      for (const std::uint8_t other : left_out) used = used && code != other;
      if (used) codes.push_back(static_cast<std::byte>(code));
    }
    for (const ecq::instruction_set isa : ecq_test::machine_sets()) expect_the_rule(rule, codes, left_out, isa);
  }

 private:
  static void expect_the_rule(const weight_rule& rule, std::vector<std::byte>& codes,
                              const std::vector<std::uint8_t>& left_out, ecq::instruction_set isa) {
    std::vector<Element> out(codes.size());
    const weight_table<Element> table(rule, isa);
    ASSERT_TRUE(table.look_up(codes.data(), codes.size(), out.data()));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto code = std::to_integer<std::uint8_t>(codes[i]);
      ASSERT_EQ(bits_of(out[i]), bits_of(rule.as<Element>(code))) << "code " << int{code};
    }
    for (const std::uint8_t bad : left_out) {
      for (const std::size_t at : {std::size_t{0}, codes.size() / 2, codes.size() - 1}) {
        const std::byte good = codes[at];
        codes[at] = static_cast<std::byte>(bad);
        EXPECT_FALSE(table.look_up(codes.data(), codes.size(), out.data())) << int{bad} << " at " << at;
        codes[at] = good;
      }
    }
  }
};
using elements = testing::Types<float, ecq::bf16, ecq::fp16>;
TYPED_TEST_SUITE(WeightTable, elements);

TYPED_TEST(WeightTable, GivesWhatTheRuleGives) {
  for (const float scale : {1.0F, -0x1.8p-7F, 0.0F, 0x1p-120F, 0x1p100F}) {
    const ecq::bf16 stored(scale);
    this->expect_the_rule({ecq::values_of_codes(ecq::dtype::fp8_e4m3), stored, 0, false}, {0x7F, 0xFF});
    this->expect_the_rule({ecq::values_of_codes(ecq::dtype::int8), stored, 0, false}, {});
    this->expect_the_rule({ecq::values_of_codes(ecq::dtype::uint8), stored, 0, true}, {});
    this->expect_the_rule({ecq::values_of_codes(ecq::dtype::uint8), stored, -3.3F, true}, {});
  }
}

TYPED_TEST(WeightTable, KeepsTheSignOfZeroUnlessThereIsAZeroPoint) {
  const auto values = ecq::values_of_codes(ecq::dtype::fp8_e4m3);
  const weight_rule plain = {values, ecq::bf16(1.0F), 0, false};
  EXPECT_TRUE(std::signbit(plain(0x80)));
  const weight_rule affine = {values, ecq::bf16(1.0F), 0, true};
  EXPECT_FALSE(std::signbit(affine(0x80)));
}

// 127 * scale is just below 2^128: within FP32, but nearer to BF16's infinity than to its largest number.
TYPED_TEST(WeightTable, TakesTheLargestElementForWeightsBeyondIt) {
  const weight_rule rule = {ecq::values_of_codes(ecq::dtype::int8), ecq::bf16(0x1.02p121F), 0, false};
  const std::byte codes[] = {std::byte{127}, std::byte{0x81}, std::byte{0}};
  float largest = 0x1.FFF8p127F;
  if constexpr (!std::is_same_v<TypeParam, float>) largest = TypeParam::largest;
  for (const ecq::instruction_set isa : ecq_test::machine_sets()) {
    TypeParam out[3];
    ASSERT_TRUE(weight_table<TypeParam>(rule, isa).look_up(codes, 3, out));
    EXPECT_EQ(static_cast<float>(out[0]), largest);
    EXPECT_EQ(static_cast<float>(out[1]), -largest);
    EXPECT_EQ(static_cast<float>(out[2]), 0.0F);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(bits_of(out[i]), bits_of(rule.as<TypeParam>(std::to_integer<std::uint8_t>(codes[i]))));
    }
  }
}

TYPED_TEST(WeightTable, TakesRunsOfAnyLength) {
  const weight_rule rule = {ecq::values_of_codes(ecq::dtype::fp8_e4m3), ecq::bf16(0.5F), 0, false};
  for (const ecq::instruction_set isa : ecq_test::machine_sets()) {
    const weight_table<TypeParam> table(rule, isa);
    for (std::size_t count = 0; count < 580; ++count) {
      std::vector<std::byte> codes(count, std::byte{0x38});
      std::vector<TypeParam> out(count + 1, TypeParam(7.0F));
      EXPECT_TRUE(table.look_up(codes.data(), count, out.data()));
      EXPECT_EQ(static_cast<float>(out[count]), 7.0F) << "written beyond " << count;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(static_cast<float>(out[i]), 0.5F) << i << " of " << count;
      if (count == 0) continue;
      codes[count - 1] = std::byte{0x7F};
      EXPECT_FALSE(table.look_up(codes.data(), count, out.data())) << count;
    }
  }
}

}  // namespace
