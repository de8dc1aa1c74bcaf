// The orders in which weights meet activations.

#include "ecq/matmul/fusion.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

using ecq::instruction_set;
using ecq::detail::block_of_scale;
using ecq::detail::for_each_sum_run;
using ecq::detail::fusion;
using ecq::detail::group_of;
using ecq::detail::place_in_rounds;
using ecq::detail::place_met;
using ecq::detail::place_of_byte_in_rounds;
using ecq::detail::place_of_half;
using ecq::detail::product_row;
using ecq::detail::row_walk;
using ecq::detail::sum_run;

// Each column has a place of its own, in the same group and in the same block. Scales may change between blocks.
TEST(Fusion, ReordersColumnsWithinGroups) {
  for (const fusion how : {fusion::codes, fusion::pairs, fusion::bf16}) {
    for (const instruction_set isa : {instruction_set::avx2, instruction_set::avx512}) {
      const std::size_t group = group_of(how);
      std::vector<int> taken(3 * group);
      for (std::size_t column = 0; column < taken.size(); ++column) {
        const std::size_t place = place_met(how, isa, column);
        ASSERT_EQ(place / group, column / group);
        EXPECT_EQ(place % group, place_met(how, isa, column % group));
        EXPECT_EQ(place / block_of_scale, column / block_of_scale);
        EXPECT_EQ(++taken[place], 1) << "column " << column;
      }
    }
  }
}

// Round i of a group takes code number i of each lane, or codes 2 i and 2 i + 1: first the first ones of all lanes,
// then the second ones.
TEST(Fusion, MeetsWeightsRoundByRound) {
  for (const fusion how : {fusion::codes, fusion::pairs, fusion::bf16}) {
    const std::size_t group = group_of(how);
    const std::size_t of_lane = group / 32;
    std::vector<int> taken(3 * group);
    for (std::size_t column = 0; column < taken.size(); ++column) {
      const std::size_t place = place_in_rounds(how, column);
      ASSERT_EQ(place / group, column / group);
      EXPECT_EQ(place % group / 32, column % of_lane) << "a round, or the first or the second code of one";
      EXPECT_EQ(place_of_half(place) % 32, column % group / of_lane) << "a lane";
      EXPECT_EQ(++taken[place], 1) << "column " << column;
    }
  }
}

// Round i of bytes takes codes 2 i and 2 i + 1 of each lane, side by side.
TEST(Fusion, MeetsBytesRoundByRound) {
  std::vector<int> taken(3 * 256);
  for (std::size_t column = 0; column < taken.size(); ++column) {
    const std::size_t place = place_of_byte_in_rounds(column);
    ASSERT_EQ(place / 256, column / 256);
    EXPECT_EQ(place % 256 / 64, column % 8 / 2) << "a round";
    EXPECT_EQ(place % 64 / 2, column % 256 / 8) << "a lane";
    EXPECT_EQ(place % 2, column % 2);
    EXPECT_EQ(++taken[place], 1) << "column " << column;
  }
}

// The lower halves of a register's 32-bit lanes are multiplied first. Neighbouring columns in memory share a lane where
// symbols are joined to BF16 in their own order.
TEST(Fusion, MeetsLowerHalvesFirst) {
  for (std::size_t column = 0; column < 256; column += 2) {
    EXPECT_EQ(place_met(fusion::bf16, instruction_set::avx2, column) + 8,
              place_met(fusion::bf16, instruction_set::avx2, column + 1));
  }
}

// As BF16 values, two activations lie in each lane, the lower half first.
TEST(Fusion, MeetsHalvesOfALane) {
  for (std::size_t place = 0; place < 128; ++place) {
    const std::size_t half = place_of_half(place);
    EXPECT_EQ(half / 32, place / 32);
    EXPECT_EQ(half % 32 / 2, place % 16) << "a lane";
    EXPECT_EQ(half % 2, place % 32 / 16) << "its half";
  }
}

// Divides three chunks, from any column on, into the runs that have a sum each. The runs follow each other, and end
// only with scales, rows and chunks.
TEST(Fusion, DividesChunksIntoSums) {
  constexpr std::size_t columns = 10, chunks = 3;
  for (const std::size_t chunk_symbols : {1U, 4U, 20U, 23U}) {
    for (const std::size_t of_scale : {1U, 3U, 5U, 10U}) {
      for (std::size_t first = 0; first < columns; ++first) {
        std::size_t at = 0, number = 0;
        for_each_sum_run(first, columns, of_scale, chunks, chunk_symbols, [&](const sum_run& run) {
          number = at % chunk_symbols == 0 ? 0 : number + 1;
          EXPECT_EQ(run.chunk, at / chunk_symbols);
          EXPECT_EQ(run.number, number);
          EXPECT_EQ(run.begin, at % chunk_symbols);
          EXPECT_EQ(run.column, (first + at) % columns);
          ASSERT_GT(run.count, 0U);
          const std::size_t next = run.column + run.count;
          ASSERT_LE(next, columns);
          EXPECT_EQ(run.column / of_scale, (next - 1) / of_scale);
          EXPECT_EQ(run.ends_scale, next == columns || next % of_scale == 0);
          at += run.count;
          EXPECT_LE(run.begin + run.count, chunk_symbols);
          EXPECT_TRUE(run.ends_scale || at % chunk_symbols == 0);
        });
        EXPECT_EQ(at, chunks * chunk_symbols);
      }
    }
  }
}

// Walks two rows and a half from any group on: activations are those of the group, and sums end where they should.
TEST(Fusion, WalksThroughRows) {
  constexpr std::size_t weights = 4, groups = 6;
  for (std::size_t of_scale = 1; of_scale <= groups; ++of_scale) {
    const product_row<float> row{nullptr, nullptr, groups, of_scale};
    for (std::size_t first = 0; first < groups; ++first) {
      row_walk walk;
      walk.start(row, first, weights);
      for (std::size_t at = first; at < first + 5 * groups / 2; ++at) {
        EXPECT_EQ(walk.column, at % groups * weights);
        const std::size_t next = (at + 1) % groups;
        EXPECT_EQ(walk.advance(row, weights), next % of_scale == 0)
            << of_scale << " groups a scale, from " << first << ", at " << at;
        EXPECT_EQ(walk.at_scale(row), next % of_scale == 0);
      }
    }
  }
}

}  // namespace
