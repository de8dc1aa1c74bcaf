#include "ecq/entropy/histogram.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

TEST(Histogram, CountsEveryValueAtEveryLength) {
  for (std::size_t size = 0; size < 1100; size += 1 + size / 64) {
    std::vector<std::uint8_t> codes(size);
    for (std::size_t i = 0; i < size; ++i) codes[i] = static_cast<std::uint8_t>(i * i);
    ecq::histogram counted;
    counted.add(codes);
    ecq::histogram expected;
    for (const std::uint8_t code : codes) ++expected.counts[code];
    EXPECT_EQ(counted, expected) << size;
    EXPECT_EQ(counted.total(), size);
  }
}

TEST(Histogram, CountsTheSameOnAnyNumberOfThreads) {
  std::vector<std::uint8_t> codes((std::size_t{5} << 20) + 3);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i % 251);
  const auto one = ecq::count_codes(ecq::cpu{.threads = 1}, codes);
  const auto four = ecq::count_codes(ecq::cpu{.threads = 4}, codes);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(*one, *four);
  EXPECT_EQ(one->distinct(), 251U);
}

}  // namespace
