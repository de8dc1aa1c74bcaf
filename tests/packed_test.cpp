#include "ecq/packed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

TEST(PackedMatrix, HasTheRowsOfAllMatricesOfAStack) {
  ecq::packed_matrix stack;
  stack.shape = {3, 8, 256};
  stack.layout = {3, 2048, 1, 256};
  const auto made = ecq::with_rows_of_all(stack);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->shape, (std::vector<std::uint64_t>{24, 256}));
  EXPECT_EQ(made->layout, (ecq::group_layout{24, 256, 1, 256}));
  stack.layout = {3, 2048, 1, 100};
  EXPECT_FALSE(ecq::with_rows_of_all(stack));
  stack.shape.clear();
  EXPECT_FALSE(ecq::with_rows_of_all(stack));
  stack.shape = {3, 0};
  stack.layout = {3, 0, 1, 1};
  EXPECT_FALSE(ecq::with_rows_of_all(stack));
}

}  // namespace
