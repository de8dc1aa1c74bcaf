#include "ecq/entropy/rans/rans_division.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

std::uint64_t quotient(const ecq::rans_division& division, std::uint32_t frequency, std::uint64_t state) {
  return (state * division.reciprocal(frequency) + division.addend()) >> (32 + division.shift(frequency));
}

/// Expects exact quotients. The error of a quotient grows with the state, so the first and the last states of some
/// quotients, the greatest among them, stand for all.
void expect_exact(const ecq::rans_division& division, std::uint32_t frequency) {
  const std::uint64_t quotients = std::uint64_t{1} << (32 - division.scale_bits);
  for (const std::uint64_t of : {std::uint64_t{0}, std::uint64_t{1}, quotients / 2, quotients - 1}) {
    ASSERT_EQ(quotient(division, frequency, of * frequency), of) << "frequency " << frequency;
    ASSERT_EQ(quotient(division, frequency, of * frequency + frequency - 1), of) << "frequency " << frequency;
  }
}

/// The states of the first and the last quotients, converted at once, as AVX-512 does, and in two parts, as AVX2 does.
TEST(FloatDivision, IsTheQuotientOrOneLess) {
  using division = ecq::detail::float_division;
  for (const unsigned scale_bits : {division::min_scale_bits, 16U}) {
    const std::uint64_t quotients = std::uint64_t{1} << (32 - scale_bits);
    for (std::uint32_t frequency = 1; frequency >> scale_bits == 0; ++frequency) {
      const float inverse = division::shrink / static_cast<float>(frequency);
      for (const std::uint64_t of : {std::uint64_t{0}, std::uint64_t{1}, quotients / 2 + 1, quotients - 1}) {
        for (const std::uint64_t rest : {std::uint64_t{0}, std::uint64_t{frequency - 1}}) {
          const auto state = static_cast<std::uint32_t>(of * frequency + rest);
          const auto low = static_cast<float>(static_cast<std::int32_t>(state));
          const float parts = low + (static_cast<std::int32_t>(state) < 0 ? 0x1p32F : 0.0F);
          for (const float rounded : {static_cast<float>(state), parts}) {
            const auto found = static_cast<std::uint64_t>(rounded * inverse);
            ASSERT_TRUE(found == of || found + 1 == of) << state << " / " << frequency << ": " << found;
          }
        }
      }
    }
  }
}

class RansDivision : public testing::TestWithParam<unsigned> {};

TEST_P(RansDivision, IsExactForEveryGreatestFrequency) {
  for (std::uint32_t greatest = 1; greatest >> GetParam() == 0; ++greatest) {
    expect_exact(ecq::rans_division::of(greatest, GetParam()), greatest);
  }
}

TEST_P(RansDivision, IsExactForTheOtherFrequenciesHoweverReciprocalsAreRounded) {
  for (std::uint32_t frequency = 1; frequency <= 1U << (GetParam() - 1); ++frequency) {
    expect_exact({GetParam(), false}, frequency);
    expect_exact({GetParam(), true}, frequency);
  }
}

TEST_P(RansDivision, RoundsUpForSomeFrequenciesAndNotForAll) {
  unsigned up = 0;
  for (std::uint32_t greatest = 1; greatest >> GetParam() == 0; ++greatest) {
    if (ecq::rans_division::of(greatest, GetParam()).rounds_up) ++up;
  }
  EXPECT_GT(up, 0U);
  EXPECT_LT(up, 1U << (GetParam() - 2));
}

INSTANTIATE_TEST_SUITE_P(Scales, RansDivision, testing::Values(12U, 16U));

}  // namespace
