#include "ecq/format/bf16.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include "support/reference_format.hpp"

namespace {

using ecq::bf16;

/// Rounds to BF16 by the carry of an addition to the FP32 word.
std::uint16_t upper_half(std::uint32_t word) {
  return static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
}

TEST(Bf16, EveryCodeAndRoundingBoundary) {
  ecq_test::expect_conforms<bf16>(ecq_test::reference_float::make(8, 7, true, true));
}

TEST(Bf16, IsTheUpperHalfOfAFloat) {
  for (std::uint32_t half = 0; half < 0x10000U; ++half) {
    const auto code = static_cast<std::uint16_t>(half);
    if (!bf16::is_finite(code)) continue;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bf16::decode(code)), half << 16);
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const std::uint32_t word = half << 16 | low;
      EXPECT_EQ(bf16::encode(std::bit_cast<float>(word)), upper_half(word)) << std::hex << word;
    }
  }
}

TEST(Bf16, EveryLowerHalf) {
  for (const std::uint32_t high : {0x0000U, 0x0001U, 0x007fU, 0x0080U, 0x3f80U, 0x3f81U, 0x7f7eU, 0x7f7fU, 0xbf81U}) {
    for (std::uint32_t low = 0; low < 0x10000U; ++low) {
      const std::uint32_t word = high << 16 | low;
      EXPECT_EQ(bf16::encode(std::bit_cast<float>(word)), upper_half(word)) << std::hex << word;
    }
  }
}

TEST(Bf16, OverflowsAndNaN) {
  EXPECT_EQ(bf16::largest, 0x1.fep127F);
  EXPECT_EQ(bf16::encode((std::numeric_limits<float>::max)()), 0x7f80);
  EXPECT_EQ(bf16::encode(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(bf16::encode(std::bit_cast<float>(0x7f800001U)), 0x7fc0);
  EXPECT_EQ(bf16::encode(std::bit_cast<float>(0xffffffffU)), 0xffc0);
}

TEST(Bf16, IsAValueType) {
  constexpr bf16 rounded(1.001F);
  static_assert(rounded == 1.0F && rounded.bits == 0x3f80);
  static_assert(bf16::from_bits(0x3f81) == 1.0078125F);
  static_assert(sizeof(bf16) == 2);
}

}  // namespace
