#include "ecq/analysis/code_statistics.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ecq::analyse_codes;

TEST(CodeStatistics, ByHand) {
  const std::vector<std::uint8_t> codes = {0, 0, 0, 0, 7, 7, 9, 255};
  const auto statistics = analyse_codes(codes);
  EXPECT_EQ(statistics.count, 8U);
  EXPECT_DOUBLE_EQ(statistics.entropy, 1.75);
  EXPECT_EQ(statistics.unique_values, 4U);
  EXPECT_EQ(statistics.sparsity, 0.5);
  EXPECT_EQ(analyse_codes(codes, 7).sparsity, 0.25);
  EXPECT_EQ(analyse_codes(codes, 8).sparsity, 0.0);
}

TEST(CodeStatistics, UniformCodesCostEightBits) {
  std::vector<std::uint8_t> codes;
  for (int repetition = 0; repetition < 3; ++repetition) {
    for (int code = 0; code < 256; ++code) codes.push_back(static_cast<std::uint8_t>(code));
  }
  const auto statistics = analyse_codes(codes);
  EXPECT_DOUBLE_EQ(statistics.entropy, 8.0);
  EXPECT_EQ(statistics.unique_values, 256U);
}

TEST(CodeStatistics, OneSymbolAndNone) {
  const std::vector<std::uint8_t> same(1000, 3);
  EXPECT_EQ(analyse_codes(same).entropy, 0.0);
  EXPECT_EQ(analyse_codes(same).unique_values, 1U);
  EXPECT_EQ(analyse_codes(same, 3).sparsity, 1.0);
  const auto none = analyse_codes(std::vector<std::uint8_t>{});
  EXPECT_EQ(none.count, 0U);
  EXPECT_EQ(none.entropy, 0.0);
  EXPECT_EQ(none.unique_values, 0U);
  EXPECT_EQ(none.sparsity, 0.0);
}

TEST(CodeStatistics, HistogramsOfPartsAddUp) {
  const std::vector<std::uint8_t> codes = {1, 2, 3, 1, 2, 1};
  ecq::histogram counts;
  counts.add(std::span(codes).first(2));
  counts.add(std::span(codes).subspan(2));
  EXPECT_EQ(analyse_codes(counts).entropy, analyse_codes(codes).entropy);
}

}  // namespace
