// Scales and codes have the same bits under all compiler options. This source is built twice, with -O0 and with -O3
// -ffast-math, fused multiply-add and wide vectors; both builds must give the hashes below.

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t rows = 24;
constexpr std::size_t columns = 333;

/// Returns bell-shaped weights whose scale grows from row to row, made without the C library.
std::vector<float> weights() {
  std::mt19937_64 engine(7);
  std::vector<float> all(rows * columns);
  for (std::size_t index = 0; index < all.size(); ++index) {
    std::int64_t sum = 0;
    for (int draw = 0; draw < 6; ++draw) sum += static_cast<std::int64_t>(engine() >> 44) - (1 << 19);
    if (engine() % 256 == 0) sum *= 16;
    all[index] = static_cast<float>(sum) * 0x1p-26F * static_cast<float>(1 + index / columns);
  }
  return all;
}

class fingerprint {
 public:
  void add(std::span<const std::uint8_t> codes, std::span<const bf16> scales) {
    for (const std::uint8_t code : codes) add(code);
    for (const bf16 scale : scales) add(scale.bits);
  }
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3U; }  // FNV-1a, a word at a time
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

template <class Format, class Distortion, class Granularity>
std::uint64_t hash_of(const Granularity& granularity) {
  const auto all = weights();
  fingerprint hash;
  std::vector<std::uint8_t> codes(all.size());
  for (const double lambda : {0.0, 0.05, 0.7, 3.9, 14.5, 90.0, 700.0}) {
    const ecq::scaled_quantizer<ecq::row_root<Distortion>, Granularity> quantizer{{lambda}, granularity};
    std::vector<bf16> scales(quantizer.layout(rows, columns).count());
    const auto done =
        quantizer.template quantize<Format>(cpu{}, matrix_view<const float>(all.data(), rows, columns), codes, scales);
    EXPECT_TRUE(done);
    hash.add(codes, scales);
  }
  return hash.value();
}

TEST(ExactQuantize, RowRootFp8E4m3) {
  EXPECT_EQ((hash_of<ecq::fp8_e4m3, ecq::relative_l1>(ecq::per_channel{})), 1663199872909538649U);
  EXPECT_EQ((hash_of<ecq::fp8_e4m3, ecq::squared_error>(ecq::per_channel{})), 12420347242052263464U);
  EXPECT_EQ((hash_of<ecq::fp8_e4m3, ecq::relative_l1>(ecq::per_group{64})), 14670792751876570018U);
  EXPECT_EQ((hash_of<ecq::fp8_e4m3, ecq::relative_l1>(ecq::per_tensor{})), 132698987723324169U);
}

TEST(ExactQuantize, RowRootFp8E5m2) {
  EXPECT_EQ((hash_of<ecq::fp8_e5m2, ecq::relative_l1>(ecq::per_channel{})), 5606743973562665254U);
}

TEST(ExactQuantize, RowRootInt8) {
  EXPECT_EQ((hash_of<ecq::int8, ecq::relative_l1>(ecq::per_channel{})), 4739326749001258333U);
  EXPECT_EQ((hash_of<ecq::int8, ecq::squared_error>(ecq::per_channel{})), 7027430802477668672U);
}

/// Returns the hash of the scales before they are rounded to BF16, since rounding hides most differences.
template <class Format>
std::uint64_t absmax_hash() {
  const auto all = weights();
  const ecq::group_layout layout = ecq::per_group{4}.layout(rows, columns);
  std::vector<float> scales(layout.count());
  EXPECT_TRUE(
      ecq::absmax_search{}.search<Format>(cpu{}, matrix_view<const float>(all.data(), rows, columns), layout, scales));
  fingerprint hash;
  for (const float scale : scales) hash.add(std::bit_cast<std::uint32_t>(scale));
  return hash.value();
}

TEST(ExactQuantize, Absmax) {
  EXPECT_EQ(absmax_hash<ecq::fp8_e4m3>(), 14437062655246012548U);
  EXPECT_EQ(absmax_hash<ecq::fp8_e5m2>(), 2872772825242865796U);
  EXPECT_EQ(absmax_hash<ecq::int8>(), 18348583082365568230U);
}

template <class Format>
std::uint64_t entrollm_hash() {
  const auto all = weights();
  std::vector<std::uint8_t> codes(all.size());
  bf16 scale;
  float zero = 0;
  EXPECT_TRUE(ecq::entrollm{}.quantize<Format>(cpu{}, matrix_view<const float>(all.data(), rows, columns), codes,
                                               std::span(&scale, 1), zero));
  EXPECT_LT(zero, 0);
  fingerprint hash;
  hash.add(codes, std::span(&scale, 1));
  return hash.value();
}

TEST(ExactQuantize, Entrollm) {
  EXPECT_EQ(entrollm_hash<ecq::uint8>(), 1530992523921491633U);
  EXPECT_EQ(entrollm_hash<ecq::uint4>(), 17578499528250346789U);
}

TEST(ExactQuantize, LambdaForBits) {
  const auto all = weights();
  const ecq::rate_input input{matrix_view<const float>(all.data(), rows, columns), 0};
  const auto lambda = ecq::lambda_for_bits<ecq::fp8_e4m3>(cpu{}, std::span(&input, 1), 3.0);
  ASSERT_TRUE(lambda);
  EXPECT_EQ(*lambda, 14.3046875);
}

}  // namespace
