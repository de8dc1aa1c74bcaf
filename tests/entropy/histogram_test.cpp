#include "ecq/entropy/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "support/instruction_sets.hpp"

namespace {

ecq::histogram counted_one_by_one(std::span<const std::uint8_t> codes) {
  ecq::histogram counted;
  for (const std::uint8_t code : codes) ++counted.counts[code];
  return counted;
}

void expect_counts(std::span<const std::uint8_t> codes, const char* what) {
  const ecq::histogram expected = counted_one_by_one(codes);
  for (const ecq::instruction_set isa : ecq_test::machine_sets()) {
    ecq::histogram counted;
    counted.add(codes, isa);
    EXPECT_EQ(counted, expected) << what << ", " << codes.size() << " codes, " << ecq::name_of(isa);
  }
}

/// Returns codes that are normally distributed around `middle` with standard deviation `size`, modulo 256.
std::vector<std::uint8_t> codes_around(double middle, double size, std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<double> distances(middle, size);
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) code = static_cast<std::uint8_t>(std::lround(distances(random)) & 0xFF);
  return codes;
}

TEST(Histogram, CountsCodesInsideAndOutsideOfAnyWindow) {
  for (const std::size_t count : {std::size_t{8191}, std::size_t{8192}, std::size_t{70000}, std::size_t{300001}}) {
    for (const double size : {0.2, 3.0, 20.0, 40.0, 300.0}) {
      expect_counts(codes_around(0, size, count), "around 0");
      expect_counts(codes_around(120, size, count), "around 120");
      std::vector<std::uint8_t> turned = codes_around(100, size, count);
      for (auto& code : turned) code = std::rotr(code, 1);
      expect_counts(turned, "signs above magnitudes");
      std::vector<std::uint8_t> parted = codes_around(10, size, count);
      std::fill(parted.begin() + static_cast<std::ptrdiff_t>(count / 3), parted.end(), std::uint8_t{200});
      expect_counts(parted, "first around 10, then 200 alone");
      expect_counts(std::span(parted).subspan(1), "at an odd address");
    }
  }
  std::vector<std::uint8_t> each(std::size_t{1} << 16);
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = static_cast<std::uint8_t>(i);
  expect_counts(each, "all alike");
  std::stable_sort(each.begin(), each.end());
  expect_counts(each, "in order");
}

/// Compares the counts of the exponents of random weights of `format`, which are `exponent_bits` wide and lie `above`
/// bits above the lowest, with those of counted_one_by_one().
template <class Element>
void expect_exponents(ecq::dtype format, unsigned above, unsigned exponent_bits, std::size_t count) {
  std::vector<Element> weights(count);
  std::vector<std::uint8_t> exponents;
  std::mt19937 random(8);
  for (Element& weight : weights) {
    weight = static_cast<Element>(random());
    exponents.push_back(static_cast<std::uint8_t>(weight >> above & ((1U << exponent_bits) - 1U)));
  }
  const ecq::histogram expected = counted_one_by_one(exponents);
  for (const ecq::instruction_set isa : ecq_test::machine_sets()) {
    const auto counted = ecq::count_exponents({.threads = 1, .isa = isa}, format, std::as_bytes(std::span(weights)));
    ASSERT_TRUE(counted);
    EXPECT_EQ(*counted, expected) << ecq::to_string(format) << ", " << ecq::name_of(isa);
  }
}

TEST(Histogram, CountsExponentsOfEveryFormat) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100003}}) {
    expect_exponents<std::uint32_t>(ecq::dtype::fp32, 23, 8, count);
    expect_exponents<std::uint16_t>(ecq::dtype::bf16, 7, 8, count);
    expect_exponents<std::uint16_t>(ecq::dtype::fp16, 10, 5, count);
    expect_exponents<std::uint8_t>(ecq::dtype::fp8_e4m3, 3, 4, count);
    expect_exponents<std::uint8_t>(ecq::dtype::fp8_e5m2, 2, 5, count);
  }
}

TEST(Histogram, CountsEveryValueAtEveryLength) {
  for (std::size_t size = 0; size < 1100; size += 1 + size / 64) {
    std::vector<std::uint8_t> codes(size);
    for (std::size_t i = 0; i < size; ++i) codes[i] = static_cast<std::uint8_t>(i * i);
    ecq::histogram counted;
    counted.add(codes);
    EXPECT_EQ(counted, counted_one_by_one(codes)) << size;
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
