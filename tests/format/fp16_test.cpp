#include "ecq/format/fp16.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include "support/reference_format.hpp"

namespace {

using ecq::fp16;

TEST(Fp16, EveryCodeAndRoundingBoundary) {
  ecq_test::expect_conforms<fp16>(ecq_test::reference_float::make(5, 10, true, true));
}

TEST(Fp16, ValuesOfTheStandard) {
  EXPECT_EQ(fp16::largest, 65504.0F);
  EXPECT_EQ(fp16::decode(0x0001), 0x1p-24F);
  EXPECT_EQ(fp16::decode(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(fp16::encode(65519.996F), 0x7bff);
  EXPECT_EQ(fp16::encode(65520.0F), 0x7c00);
}

#if defined(__aarch64__) || defined(__FLT16_MAX__)
#if defined(__aarch64__)
using compiler_half = __fp16;  // g++ 12 has _Float16 only on x86
#else
using compiler_half = _Float16;
#endif

TEST(Fp16, AgreesWithTheCompiler) {
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const auto expected = static_cast<float>(std::bit_cast<compiler_half>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(fp16::decode(bits))) << code;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(fp16::decode(bits)), std::bit_cast<std::uint32_t>(expected)) << code;
    }
  }
  for (std::uint64_t word = 0; word <= 0xffffffffU; word += 1021) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (std::isnan(value)) continue;  // payloads depend on the compiler
    EXPECT_EQ(fp16::encode(value), std::bit_cast<std::uint16_t>(static_cast<compiler_half>(value))) << std::hex << word;
  }
}
#endif

TEST(Fp16, IsAValueType) {
  constexpr fp16 rounded(1.0002F);
  static_assert(rounded == 1.0F && rounded.bits == 0x3c00);
  static_assert(fp16::from_bits(0x3c01) == 1.0009765625F);
  static_assert(sizeof(fp16) == 2);
}

}  // namespace
