#include "ecq/analysis/hadamard.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <random>
#include <vector>

namespace {

using ecq::hadamard_block;
using ecq::hadamard_transform;

std::vector<float> some_values(std::size_t count) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31F - 1.0F;
  return values;
}

double squares_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

TEST(Hadamard, ByHand) {
  std::array<float, 4> values{1, 2, 3, 6};
  hadamard_transform(values);
  EXPECT_EQ(values, (std::array<float, 4>{6, -2, -3, 1}));
}

TEST(Hadamard, IsTheSylvesterMatrix) {
  constexpr std::size_t size = 64;
  for (std::size_t column = 0; column < size; ++column) {
    std::vector<float> unit(size, 0.0F);
    unit[column] = 1.0F;
    hadamard_transform(unit);
    for (std::size_t row = 0; row < size; ++row) {
      EXPECT_EQ(unit[row], std::popcount(row & column) % 2 == 0 ? 0.125F : -0.125F);
    }
  }
}

TEST(Hadamard, IsAnInvolutionThatKeepsNorms) {
  for (std::size_t size = 1; size <= ecq::largest_hadamard_block; size *= 2) {
    const std::vector<float> before = some_values(size);
    std::vector<float> values = before;
    hadamard_transform(values);
    EXPECT_NEAR(squares_of(values) / squares_of(before), 1.0, 1e-5) << size;
    hadamard_transform(values);
    for (std::size_t at = 0; at < size; ++at) ASSERT_NEAR(values[at], before[at], 4e-6) << at << " of " << size;
  }
}

TEST(Hadamard, BlocksArePowersOfTwoThatDivide) {
  EXPECT_EQ(hadamard_block(0), 1U);
  EXPECT_EQ(hadamard_block(1), 1U);
  EXPECT_EQ(hadamard_block(127), 1U);
  EXPECT_EQ(hadamard_block(11008), 256U);
  EXPECT_EQ(hadamard_block(4096), 4096U);
  EXPECT_EQ(hadamard_block(std::size_t{1} << 40), ecq::largest_hadamard_block);
  hadamard_transform({});
}

}  // namespace
