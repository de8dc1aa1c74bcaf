// The orders in which weights meet activations.

#include "ecq/matmul/fusion.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

using ecq::instruction_set;
using ecq::detail::fusion;
using ecq::detail::group_of;
using ecq::detail::place_met;

// Each group is one of its own, whose columns have a place each.
TEST(Fusion, ReordersColumnsWithinGroups) {
  for (const fusion how : {fusion::codes, fusion::pairs, fusion::bf16}) {
    for (const instruction_set isa : {instruction_set::avx2, instruction_set::avx512}) {
      const std::size_t group = group_of(how);
      std::vector<int> taken(3 * group);
      for (std::size_t column = 0; column < taken.size(); ++column) {
        const std::size_t place = place_met(how, isa, column);
        ASSERT_EQ(place / group, column / group);
        EXPECT_EQ(place % group, place_met(how, isa, column % group));
        EXPECT_EQ(++taken[place], 1) << "column " << column;
      }
    }
  }
}

// A register of 32 bits a lane has the lower halves of its lanes met first: so do columns that are neighbours in memory
// where symbols are joined to BF16 in their own order.
TEST(Fusion, MeetsLowerHalvesFirst) {
  for (std::size_t column = 0; column < 256; column += 2) {
    EXPECT_EQ(place_met(fusion::bf16, instruction_set::avx512, column) + 16,
              place_met(fusion::bf16, instruction_set::avx512, column + 1));
    EXPECT_EQ(place_met(fusion::bf16, instruction_set::avx2, column) + 8,
              place_met(fusion::bf16, instruction_set::avx2, column + 1));
  }
}

}  // namespace
