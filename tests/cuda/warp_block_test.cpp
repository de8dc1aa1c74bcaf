#include "ecq/cuda/warp_block.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <cstdint>
#include <utility>
#include <vector>

#include "ecq/quantize/granularity.hpp"

namespace {

using ecq::errc;
using ecq::matrix_place;

ecq::packed_matrix matrix_of(std::size_t rows, std::size_t columns, std::uint64_t first_symbol) {
  ecq::packed_matrix matrix;
  matrix.layout = ecq::per_channel{}.layout(rows, columns);
  matrix.first_symbol = first_symbol;
  matrix.scales.resize(matrix.layout.count(), ecq::bf16(1.0F));
  return matrix;
}

const std::vector<ecq::packed_matrix> two = {matrix_of(2, 129, 6), matrix_of(3, 2, 0)};

TEST(WarpBlock, PutsMatricesOneBehindAnother) {
  const auto places = ecq::dense_places(two);
  EXPECT_EQ(places, (std::vector<matrix_place>{{0, 129}, {512, 2}}));
  EXPECT_EQ(*ecq::elements_at(two, places), 518U);
}

TEST(WarpBlock, ListsMatricesInOrderOfTheirSymbols) {
  const auto block = ecq::warp_block::of(two, ecq::dense_places(two));
  ASSERT_TRUE(block);
  ASSERT_EQ(block->matrices.size(), 2U);
  EXPECT_EQ(block->matrices[0].first_symbol, 0U);
  EXPECT_EQ(block->matrices[0].offset, 512U);
  EXPECT_EQ(block->matrices[0].first_scale, 2U);
  EXPECT_EQ(block->matrices[1].first_scale, 0U);
}

TEST(WarpBlock, CountsTheLastRowWithoutWhatFollowsIt) {
  EXPECT_EQ(*ecq::elements_at(two, std::vector<matrix_place>{{5, 200}, {0, 2}}), 5U + 200U + 129U);
}

TEST(WarpBlock, CutsRowsWhereAGroupOfScalesBegins) {
  auto matrix = matrix_of(10, 8, 4);
  matrix.layout.rows_per_group = 4;
  matrix.scales.resize(matrix.layout.count());
  const auto block = ecq::warp_block::of({&matrix, 1}, std::vector<matrix_place>{{3, 12}});
  ASSERT_TRUE(block);
  EXPECT_FALSE(block->matrices[0].by_four);
  const auto rows = ecq::rows_of(block->matrices[0], 3, 6);
  ASSERT_EQ(rows.count, 2U);
  EXPECT_EQ(rows.pieces[0].rows, 1U);
  EXPECT_EQ(rows.pieces[0].first_symbol, 4U + 3 * 8);
  EXPECT_EQ(rows.pieces[0].first_scale, 0U);
  EXPECT_EQ(rows.pieces[0].offset, 0U);
  EXPECT_TRUE(rows.pieces[0].by_four);
  EXPECT_EQ(rows.pieces[1].rows, 5U);
  EXPECT_EQ(rows.pieces[1].first_symbol, 4U + 4 * 8);
  EXPECT_EQ(rows.pieces[1].first_scale, matrix.layout.groups_across());
  EXPECT_EQ(rows.pieces[1].offset, 12U);
  EXPECT_EQ(ecq::rows_of(block->matrices[0], 4, 6).count, 1U);
  EXPECT_EQ(ecq::rows_of(block->matrices[0], 1, 3).count, 1U);
  EXPECT_EQ(ecq::rows_of(block->matrices[0], 9, 0).count, 0U);
}

TEST(WarpBlock, KnowsWhichCodesAreFinite) {
  std::vector<ecq::packed_matrix> matrices = {matrix_of(2, 2, 0)};
  const auto finite = [&](const std::bitset<256>& codes) {
    return ecq::warp_block::of(matrices, ecq::dense_places(matrices))->finite(codes);
  };
  matrices[0].format = ecq::dtype::fp8_e4m3;
  EXPECT_TRUE(finite({}));
  EXPECT_FALSE(finite(std::bitset<256>().set()));
  EXPECT_TRUE(finite(std::bitset<256>().set().reset(0x7F).reset(0xFF)));
  EXPECT_FALSE(finite(std::bitset<256>().set(0xFF)));
  matrices[0].format = ecq::dtype::int8;
  EXPECT_TRUE(finite(std::bitset<256>().set()));
}

TEST(WarpBlock, NamesPlacesThatCannotBe) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 60;
  for (const auto& places : {std::vector<matrix_place>{{0, 129}},
                             {{0, 128}, {512, 2}},
                             {{0, 129}, {huge - 1, 2}},
                             {{0, huge}, {0, 2}},
                             {{4 * huge, 129}, {512, 2}},  // as many bytes of FP32 as from 0 on, modulo 2^64
                             {{~std::uint64_t{0}, 129}, {0, 2}}}) {
    const auto got = ecq::elements_at(two, places);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), errc::invalid_argument);
  }
  // A matrix without weights has a place nevertheless.
  for (const auto& [rows, columns] : {std::pair{0, 2}, {2, 0}}) {
    const std::vector<ecq::packed_matrix> none = {
        matrix_of(static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), 0)};
    EXPECT_TRUE(ecq::elements_at(none, std::vector<matrix_place>{{huge, 0}}));
    EXPECT_FALSE(ecq::elements_at(none, std::vector<matrix_place>{{4 * huge, 2}}));
  }
}

TEST(WarpBlock, NamesMatricesThatNoSinkTakes) {
  std::vector<std::vector<ecq::packed_matrix>> blocks(4, two);
  blocks[0][1].layout = ecq::without_groups(3, 2);
  blocks[1][1].format = ecq::dtype::int8;
  blocks[2][1].layout.columns = std::size_t{1} << 32;
  blocks[3][1].first_symbol = 5;
  for (const auto& block : blocks) {
    const auto got = ecq::warp_block::of(block, ecq::dense_places(block));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), errc::unsupported);
  }
}

}  // namespace
